// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "runtime/data/image.h"

// Private to this folder: the formats behind decode_image, each the only place that sees its
// library. UserError as there.
namespace hetpipe {

bool is_jpeg(std::string_view bytes);
Image decode_jpeg(std::string_view bytes, const std::string& name);
ImageSize jpeg_size(std::string_view bytes, const std::string& name);
ImagePart decode_jpeg_part(std::string_view bytes, const std::string& name, Box box,
                           ImageSize least);
bool is_png(std::string_view bytes);
Image decode_png(std::string_view bytes, const std::string& name);
ImageSize png_size(std::string_view bytes, const std::string& name);

// UserError unless the sides are those of an image to train on.
void check_image_size(std::int64_t height, std::int64_t width, const std::string& name);
[[noreturn]] void refuse_damaged(const std::string& name, const std::string& format,
                                 const std::string& why);

}  // namespace hetpipe
