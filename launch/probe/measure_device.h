// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "base/fields.h"
#include "kernels/device.h"

// The rates of a device on large operations, one at a time, without other load.
namespace hetpipe {

// Flop/s of square matrix products through the device's own layer of type Linear, in the device's
// precision. The matrices grow until a product takes a while, fills a sixteenth of `memory` or has
// 8192 rows; the rate is that of the median product of the largest size.
double measure_products(Device& device, double memory, double seconds);

double median(std::vector<double> values);  // the upper one of two

// Bytes/s of copies: inside the device (each byte is read and written once), from and to host
// memory of Device::allocate_host. Each the median.
struct CopyRates {
  double inside = 0;
  double to_device = 0;
  double from_device = 0;
};
constexpr auto fields_of(Type<CopyRates>) {
  return fields<&CopyRates::inside, &CopyRates::to_device, &CopyRates::from_device>;
}
CopyRates measure_copies(Device& device, double memory, double seconds);

}  // namespace hetpipe
