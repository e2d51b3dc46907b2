// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hetpipe {

// How a device multiplies, and what it keeps activations in. tf32: fp32 activations whose products
// take 10 bits of mantissa. bf16 and fp16: activations of two bytes, sums in fp32; fp16 needs the
// loss scaled, or its smallest gradients are lost. Parameters are fp32 everywhere.
enum class Precision : std::uint8_t { fp32, tf32, bf16, fp16 };

const std::vector<std::string>& precision_names();  // in the order of the enumeration
std::string to_string(Precision precision);
Precision precision_named(const std::string& name);  // UserError for an unknown one

}  // namespace hetpipe
