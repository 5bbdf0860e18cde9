// SPDX-License-Identifier: Apache-2.0
// Tells a forked child from its parent: of all threads only the forking one lives on in the child.
#ifndef HEADWISE_RUNTIME_FORK_COUNT_H_
#define HEADWISE_RUNTIME_FORK_COUNT_H_

#include <cstdint>

namespace headwise {

// How many forks lie between this process and the one that loaded the library.
std::uint64_t fork_count();

}  // namespace headwise

#endif  // HEADWISE_RUNTIME_FORK_COUNT_H_
