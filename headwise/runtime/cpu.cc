// SPDX-License-Identifier: Apache-2.0
#include "headwise/runtime/cpu.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include "headwise/runtime/cgroup.h"

namespace headwise {
namespace {

// "32K", "8M", "1024"; 0 when it is none of these.
std::size_t parse_cache_size(const std::string& text) {
  std::size_t bytes = 0;
  std::size_t at = 0;
  for (; at < text.size() && text[at] >= '0' && text[at] <= '9' && bytes < (std::size_t{1} << 40); ++at) {
    bytes = bytes * 10 + static_cast<std::size_t>(text[at] - '0');
  }
  if (at == text.size()) return bytes;
  if (text[at] == 'K') return bytes << 10;
  if (text[at] == 'M') return bytes << 20;
  if (text[at] == 'G') return bytes << 30;
  return 0;
}

std::string first_word(const std::filesystem::path& path) {
  std::string word;
  std::ifstream(path) >> word;
  return word;
}

CacheSizes find_cache_sizes() {
  if (const auto found = read_cache_sizes("/sys/devices/system/cpu/cpu0/cache")) return *found;
  CacheSizes sizes;
#if defined(_SC_LEVEL1_DCACHE_SIZE)
  const long l1d = sysconf(_SC_LEVEL1_DCACHE_SIZE);
  const long l2 = sysconf(_SC_LEVEL2_CACHE_SIZE);
  const long l3 = sysconf(_SC_LEVEL3_CACHE_SIZE);
  if (l1d > 0) sizes.l1d = static_cast<std::size_t>(l1d);
  if (l2 > 0) sizes.l2 = static_cast<std::size_t>(l2);
  if (l3 > 0) sizes.l3 = static_cast<std::size_t>(l3);
#endif
  return sizes;
}

// Processors in the affinity mask; the mask is read with more room until the kernel's own one fits.
int affinity_cpus() {
  for (int room = CPU_SETSIZE; room <= 1 << 20; room *= 2) {
    std::vector<unsigned long> words(static_cast<std::size_t>(room) / (8 * sizeof(unsigned long)));
    auto* mask = reinterpret_cast<cpu_set_t*>(words.data());
    const std::size_t bytes = words.size() * sizeof(unsigned long);
    if (sched_getaffinity(0, bytes, mask) == 0) return CPU_COUNT_S(bytes, mask);
  }
  return static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
}

}  // namespace

std::optional<CacheSizes> read_cache_sizes(const std::filesystem::path& folder) {
  CacheSizes sizes;
  std::size_t level3 = 0;
  bool any = false;
  for (int index = 0; index < 16; ++index) {
    const std::filesystem::path entry = folder / ("index" + std::to_string(index));
    const std::string type = first_word(entry / "type");
    const std::size_t bytes = parse_cache_size(first_word(entry / "size"));
    if (bytes == 0 || (type != "Data" && type != "Unified")) continue;
    const std::string level = first_word(entry / "level");
    if (level == "1") sizes.l1d = bytes;
    if (level == "2") sizes.l2 = bytes;
    if (level == "3") level3 = bytes;
    any = true;
  }
  if (!any) return std::nullopt;
  sizes.l3 = level3 > 0 ? level3 : sizes.l2;
  return sizes;
}

const CacheSizes& cache_sizes() {
  static const CacheSizes sizes = find_cache_sizes();
  return sizes;
}

int usable_cpus() {
  int cpus = affinity_cpus();
  if (const std::optional<double> quota = cgroup_cpu_quota("/"); quota && *quota < cpus) {
    cpus = static_cast<int>(std::ceil(*quota));
  }
  return std::max(cpus, 1);
}

}  // namespace headwise
