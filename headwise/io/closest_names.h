// SPDX-License-Identifier: Apache-2.0
// Which known names somebody may have meant.
#ifndef HEADWISE_IO_CLOSEST_NAMES_H_
#define HEADWISE_IO_CLOSEST_NAMES_H_

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace headwise {

// Letters to insert, delete, replace or swap with their neighbour. Counts no further than `limit`, then gives limit
// + 1.
std::size_t edit_distance(std::string_view a, std::string_view b, std::size_t limit);

// At most `count` of the names, the closest first: those that differ from `wanted` in at most a third of its letters.
std::vector<std::string> closest_names(std::string_view wanted, std::span<const std::string> names, std::size_t count);

}  // namespace headwise

#endif  // HEADWISE_IO_CLOSEST_NAMES_H_
