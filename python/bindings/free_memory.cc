// SPDX-License-Identifier: Apache-2.0
#include "python/bindings/free_memory.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <optional>
#include <string>

#include "python/bindings/errors.h"

namespace headwise::python {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::infinity();
// Below this nothing is read: a machine without so little to spare could not have come here.
constexpr double kAlwaysFine = 16.0 * 1024 * 1024;

// The number of a file that holds one; none for "max" or a missing file.
std::optional<double> number_in(const std::string& path) {
  std::ifstream file(path);
  double value = 0;
  if (!(file >> value)) return std::nullopt;
  return value;
}

// The number after a key in a file of "key value" lines: /proc/meminfo, memory.stat.
std::optional<double> number_after(const std::string& path, std::string_view key) {
  std::ifstream file(path);
  std::string word;
  double value = 0;
  while (file >> word) {
    if (word == key && file >> value) return value;
    file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return std::nullopt;
}

// What one control group leaves: its limit less what it uses, file cache that can go apart.
double free_in_group(const std::string& folder, const char* limit_file, const char* usage_file, const char* cache_key) {
  const std::optional<double> limit = number_in(folder + limit_file), usage = number_in(folder + usage_file);
  if (!limit || !usage) return kUnknown;
  const double cache = number_after(folder + "/memory.stat", cache_key).value_or(0);
  return std::max(0.0, *limit - std::max(0.0, *usage - cache));
}

// The smallest over this process's control group and those around it, for version 2 and version 1.
double free_in_groups() {
  double smallest = kUnknown;
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool unified = controllers.empty();
    if (!unified && ("," + controllers + ",").find(",memory,") == std::string::npos) continue;
    const std::string root = unified ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
    for (std::string path = line.substr(second + 1);; path.erase(path.rfind('/'))) {
      const std::string folder = root + (path == "/" ? "" : path);
      smallest = std::min(smallest, unified ? free_in_group(folder, "/memory.max", "/memory.current", "inactive_file")
                                            : free_in_group(folder, "/memory.limit_in_bytes", "/memory.usage_in_bytes",
                                                            "total_inactive_file"));
      if (path.rfind('/') == std::string::npos) break;
    }
  }
  return smallest;
}

double free_in_address_space() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kUnknown;
  const double pages = number_in("/proc/self/statm").value_or(0);
  return std::max(0.0, static_cast<double>(limit.rlim_cur) - pages * static_cast<double>(sysconf(_SC_PAGESIZE)));
}

std::string in_gib(double bytes) { return fmt::format("{:.1f} GiB", bytes / (1024.0 * 1024 * 1024)); }

}  // namespace

double free_memory_bytes() {
  const std::optional<double> kib = number_after("/proc/meminfo", "MemAvailable:");
  return std::min({kib ? *kib * 1024 : kUnknown, free_in_groups(), free_in_address_space()});
}

void MemoryRequest::add(std::string name, std::span<const Index> shape, std::size_t item_bytes) {
  double bytes = static_cast<double>(item_bytes);
  for (Index extent : shape) bytes *= static_cast<double>(extent);
  names_.push_back(std::move(name));
  bytes_ += bytes;
}

void MemoryRequest::check(std::string_view who) const {
  if (bytes_ <= kAlwaysFine) return;
  const double free = free_memory_bytes();
  if (bytes_ <= free) return;
  throw TooLargeError(
      fmt::format("{}: {} need {} of memory, {} are free", who, fmt::join(names_, ", "), in_gib(bytes_), in_gib(free)));
}

}  // namespace headwise::python
