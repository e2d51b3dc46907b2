// SPDX-License-Identifier: Apache-2.0
#include "launch/report/html.h"

#include "base/error.h"
#include "base/json.h"
#include "base/markup.h"
#include "base/text.h"

namespace hetpipe {
namespace {

std::string data_element(const Json& exact, const std::string& shown) {
  return "<data value=\"" + exact.dump() + "\">" + markup_text(shown) + "</data>";
}

}  // namespace

std::string html_number(double exact, const std::string& shown) {
  return data_element(exact, shown);
}
std::string html_number(std::int64_t exact, const std::string& shown) {
  return data_element(exact, shown);
}

std::string html_seconds(double seconds) { return html_number(seconds, format_seconds(seconds)); }
std::string html_bytes(double bytes) { return html_number(bytes, format_bytes(bytes)); }
std::string html_bytes(std::int64_t bytes) {
  return html_number(bytes, format_bytes(static_cast<double>(bytes)));
}
std::string html_rate(double per_second, const char* what) {
  return html_number(per_second, format("%.4g %s", per_second, what));
}
std::string html_bandwidth(double bytes_per_second) {
  return html_number(bytes_per_second, format_bytes(bytes_per_second) + "/s");
}
std::string html_percent(double fraction) { return html_number(fraction, shown_percent(fraction)); }
std::string html_accuracy(double fraction) {
  return html_number(fraction, format("%.2f %%", 100 * fraction));
}
std::string html_loss(double loss) { return html_number(loss, format("%.4f", loss)); }
std::string html_count(std::int64_t count) { return html_number(count, std::to_string(count)); }
std::string shown_percent(double fraction) { return format("%.1f %%", 100 * fraction); }

std::string html_paragraph(const std::string& html) { return "<p>" + html + "</p>\n"; }

std::string html_section(const std::string& id, int level, const std::string& title,
                         const std::string& html) {
  const std::string name = markup_text(id);
  return "<section id=\"" + name + "\" aria-labelledby=\"" + name + "-title\">\n" +
         format("<h%d id=\"", level) + name + "-title\">" + markup_text(title) +
         format("</h%d>\n", level) + html + "</section>\n";
}

std::string html_details(const std::string& title, const std::string& html) {
  return "<details>\n<summary>" + markup_text(title) + "</summary>\n" + html + "</details>\n";
}

std::string html_code(const std::string& text) {
  return "<pre tabindex=\"0\"><code>" + markup_text(text) + "</code></pre>\n";
}

HtmlTable::HtmlTable(std::string caption, std::vector<std::string> header)
    : caption_(std::move(caption)), header_(std::move(header)) {}

void HtmlTable::add(std::vector<std::string> cells) {
  ensure(cells.size() == header_.size(), "a row has a cell for every column");
  rows_.push_back(std::move(cells));
}

std::string HtmlTable::html() const {
  std::string out = "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"" +
                    markup_text(caption_) + "\">\n<table>\n<caption>" + markup_text(caption_) +
                    "</caption>\n<thead><tr>";
  for (const std::string& title : header_)
    out += "<th scope=\"col\">" + markup_text(title) + "</th>";
  out += "</tr></thead>\n<tbody>\n";
  for (const std::vector<std::string>& row : rows_) {
    out += "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i) {
      const bool number = row[i].starts_with("<data");
      out += i == 0 ? "<th scope=\"row\">" : number ? "<td class=\"n\">" : "<td>";
      out += row[i] + (i == 0 ? "</th>" : "</td>");
    }
    out += "</tr>\n";
  }
  return out + "</tbody>\n</table>\n</div>\n";
}

}  // namespace hetpipe
