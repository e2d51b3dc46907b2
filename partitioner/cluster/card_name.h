// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "partitioner/cluster/catalogue.h"

// From a driver's name of a card to the device type in cluster and profile files.
namespace hetpipe {

// The catalogue's row for "NVIDIA GeForce RTX 3090", "Tesla V100-SXM2-16GB", "NVIDIA H100 80GB
// HBM3"; null if there is none, as for a part of a card (MIG) or a laptop's, which are slower
// than the card they are named after.
const CatalogueEntry* find_card(std::string_view driver_name);

// Lower-case letters, digits and single '-', without the vendor: "rtx-3060-laptop-gpu".
std::string slug_of(std::string_view name);

// The row's name, else the slug: the card's name in both `hetpipe probe` and `hetpipe profile`.
std::string kind_of_card(std::string_view driver_name);

}  // namespace hetpipe
