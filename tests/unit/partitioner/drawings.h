// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <regex>
#include <string>
#include <vector>

// What tests of SVG images ask of all of them.
namespace hetpipe::test {

// Every tag is closed in order, every entity is known, every attribute quoted.
inline void expect_well_formed(const std::string& xml) {
  static const std::regex kTag(R"re(<(/?)([a-z]+)((?: [A-Za-z0-9:-]+="[^"<>&]*")*)(/?)>)re");
  std::vector<std::string> open;
  std::size_t at = 0;
  bool root_closed = false;
  while (at < xml.size()) {
    const std::size_t tag = xml.find('<', at);
    const std::string text = xml.substr(at, tag == xml.npos ? xml.npos : tag - at);
    EXPECT_TRUE(std::regex_match(text, std::regex("([^&<>]|&(lt|gt|amp|quot|#39);)*"))) << text;
    if (tag == xml.npos) break;
    EXPECT_FALSE(root_closed) << "text after the end";
    std::smatch match;
    const std::size_t end = xml.find('>', tag);
    ASSERT_NE(end, xml.npos);
    const std::string whole = xml.substr(tag, end - tag + 1);
    ASSERT_TRUE(std::regex_match(whole, match, kTag)) << whole;
    if (match[1].length() > 0) {
      ASSERT_FALSE(open.empty());
      EXPECT_EQ(open.back(), match[2]);
      open.pop_back();
      root_closed = open.empty();
    } else if (match[4].length() == 0) {
      open.push_back(match[2]);
    }
    at = end + 1;
  }
  EXPECT_TRUE(open.empty());
  EXPECT_TRUE(root_closed);
}

struct Drawn {
  double x, y, width, height;
};

inline std::vector<Drawn> boxes_of(const std::string& svg) {
  static const std::regex kBox(
      R"re(<rect x="([0-9.]+)" y="([0-9.]+)" width="([0-9.]+)" height="([0-9.]+)")re");
  std::vector<Drawn> boxes;
  for (auto at = std::sregex_iterator(svg.begin(), svg.end(), kBox); at != std::sregex_iterator();
       ++at) {
    boxes.push_back(
        {std::stod((*at)[1]), std::stod((*at)[2]), std::stod((*at)[3]), std::stod((*at)[4])});
  }
  return boxes;
}

}  // namespace hetpipe::test
