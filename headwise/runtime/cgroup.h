// SPDX-License-Identifier: Apache-2.0
// How much processor time the control groups of this process pay for.
#ifndef HEADWISE_RUNTIME_CGROUP_H_
#define HEADWISE_RUNTIME_CGROUP_H_

#include <filesystem>
#include <optional>

namespace headwise {

// Processors' worth of time per period: the smallest quota of the process's group and those above it, version 1
// (cpu.cfs_quota_us, cpu.cfs_period_us) and 2 (cpu.max). Nothing where none is set or the files are not as expected.
// `root` is "/" but for tests; below it are proc/self/cgroup, proc/self/mountinfo and what that one names.
std::optional<double> cgroup_cpu_quota(const std::filesystem::path& root);

}  // namespace headwise

#endif  // HEADWISE_RUNTIME_CGROUP_H_
