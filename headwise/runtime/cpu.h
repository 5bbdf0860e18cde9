// SPDX-License-Identifier: Apache-2.0
// Facts about this machine: its caches and how many processors may be used.
#ifndef HEADWISE_RUNTIME_CPU_H_
#define HEADWISE_RUNTIME_CPU_H_

#include <cstddef>
#include <filesystem>
#include <optional>

namespace headwise {

// Bytes. Tile sizes may depend on them, results never do.
struct CacheSizes {
  std::size_t l1d = 32 << 10;
  std::size_t l2 = 512 << 10;
  std::size_t l3 = 4 << 20;  // the last level: equal to l2 where there is no third
};

// Read once, from the kernel's files, else from the C library, else the values above.
const CacheSizes& cache_sizes();

// The same from a folder laid out as /sys/devices/system/cpu/cpu0/cache; nothing if it holds no data cache.
std::optional<CacheSizes> read_cache_sizes(const std::filesystem::path& folder);

// How many processors may work for this process at once: those of its affinity mask, but no more than its cgroup's
// quota pays for, rounded up. At least 1. Read anew on each call.
int usable_cpus();

}  // namespace headwise

#endif  // HEADWISE_RUNTIME_CPU_H_
