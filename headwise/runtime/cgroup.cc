// SPDX-License-Identifier: Apache-2.0
#include "headwise/runtime/cgroup.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace headwise {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream{std::string(text)};
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

bool contains(const std::vector<std::string>& parts, std::string_view wanted) {
  return std::find(parts.begin(), parts.end(), wanted) != parts.end();
}

// The group's path of a hierarchy in proc/self/cgroup, whose lines are "id:controllers:path"; version 2 has no
// controllers there.
std::optional<std::string> group_path(const fs::path& root, bool version2) {
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (version2 ? controllers.empty() : contains(split(controllers, ','), "cpu")) return line.substr(second + 1);
  }
  return std::nullopt;
}

// A line of mountinfo: "36 35 98:0 <top> <place> rw,noatime master:1 - <type> <source> <options>".
struct Mount {
  std::string top;    // the group that the mount shows as its root
  std::string place;  // where it is mounted
  bool version2 = false;
};

std::optional<Mount> parse_mount(const std::string& line) {
  const std::size_t dash = line.find(" - ");
  if (dash == std::string::npos) return std::nullopt;
  const std::vector<std::string> head = split(std::string_view(line).substr(0, dash), ' ');
  const std::vector<std::string> tail = split(std::string_view(line).substr(dash + 3), ' ');
  if (head.size() < 5 || tail.size() < 3) return std::nullopt;
  const bool version2 = tail[0] == "cgroup2";
  const bool version1 = tail[0] == "cgroup" && contains(split(tail[2], ','), "cpu");
  if (!version1 && !version2) return std::nullopt;
  return Mount{head[3], head[4], version2};
}

// A quota, or nothing where it is "max", -1 or unreadable.
std::optional<double> read_quota(const fs::path& group, bool version2) {
  double quota = 0;
  double period = 0;
  bool read = false;
  if (version2) {
    std::ifstream file(group / "cpu.max");
    read = static_cast<bool>(file >> quota >> period);
  } else {
    std::ifstream quota_file(group / "cpu.cfs_quota_us");
    std::ifstream period_file(group / "cpu.cfs_period_us");
    read = quota_file >> quota && period_file >> period;
  }
  if (!read || quota <= 0 || period <= 0) return std::nullopt;
  return quota / period;
}

// The path of `group` below `top`; inside a container either may be unrelated to the other, and then the mount's own
// root is all that can be seen.
fs::path below(const std::string& group, const std::string& top) {
  if (group.find("..") != std::string::npos) return {};
  if (top == "/") return fs::path(group).relative_path();
  const bool inside = group.starts_with(top) && (group.size() == top.size() || group[top.size()] == '/');
  return inside ? fs::path(group.substr(top.size())).relative_path() : fs::path();
}

}  // namespace

std::optional<double> cgroup_cpu_quota(const fs::path& root) {
  std::optional<double> smallest;
  std::ifstream mounts(root / "proc/self/mountinfo");
  for (std::string line; std::getline(mounts, line);) {
    const std::optional<Mount> mount = parse_mount(line);
    if (!mount) continue;
    const std::optional<std::string> group = group_path(root, mount->version2);
    if (!group) continue;
    const fs::path place = root / fs::path(mount->place).relative_path();
    fs::path inner = below(*group, mount->top);
    while (true) {
      if (const std::optional<double> quota = read_quota(place / inner, mount->version2)) {
        smallest = std::min(smallest.value_or(*quota), *quota);
      }
      if (inner.empty()) break;
      inner = inner.parent_path();
    }
  }
  return smallest;
}

}  // namespace headwise
