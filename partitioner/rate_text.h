// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>

namespace hetpipe {

// Bytes per second of "10Gb/s" (b: bits), "1.25GB/s" (B: bytes), "900 MiB/s", "100Gbit/s",
// "25Gbps": a number, a prefix of 1000 (k, M, G, T) or of 1024 (Ki, Mi, Gi, Ti) or none, bits or
// bytes, per second. Nothing where the text is none of these.
std::optional<double> try_parse_rate(std::string_view text);

}  // namespace hetpipe
