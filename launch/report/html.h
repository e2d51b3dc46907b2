// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// Pieces of an HTML page. What takes text escapes it; what takes HTML says so.
namespace hetpipe {

// <data value="EXACT">SHOWN</data>: EXACT as JSON has it, in the fewest digits that read back as
// the same number.
std::string html_number(double exact, const std::string& shown);
std::string html_number(std::int64_t exact, const std::string& shown);

// One form for each kind of number, wherever it stands on the page.
std::string html_seconds(double seconds);
std::string html_bytes(double bytes);
std::string html_bytes(std::int64_t bytes);
std::string html_rate(double per_second, const char* what);  // "465 samples/s"
std::string html_bandwidth(double bytes_per_second);         // "941 MB/s"
std::string html_percent(double fraction);                   // "12.3 %"
std::string html_accuracy(double fraction);                  // "86.37 %"
std::string html_loss(double loss);                          // "0.3693"
std::string html_count(std::int64_t count);
std::string shown_percent(double fraction);  // without the exact value

// Named parts of a page.
std::string html_paragraph(const std::string& html);
std::string html_section(const std::string& id, int level, const std::string& title,
                         const std::string& html);
// Closed at first; opened by the keyboard as by the mouse.
std::string html_details(const std::string& title, const std::string& html);
std::string html_code(const std::string& text);  // as it is, with its line ends

// A table with a caption, whose first column names the rows. Cells are HTML; those that show a
// number are aligned to the right.
class HtmlTable {
 public:
  HtmlTable(std::string caption, std::vector<std::string> header);
  void add(std::vector<std::string> cells);
  bool empty() const { return rows_.empty(); }
  std::string html() const;

 private:
  std::string caption_;
  std::vector<std::string> header_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace hetpipe
