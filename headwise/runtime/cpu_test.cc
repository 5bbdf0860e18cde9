// SPDX-License-Identifier: Apache-2.0
#include "headwise/runtime/cpu.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "headwise/runtime/cgroup.h"
#include "tests/support/temporary_folder.h"

namespace headwise {
namespace {

namespace fs = std::filesystem;

class FileTree {
 public:
  void write(const fs::path& path, const std::string& text) const {
    fs::create_directories((root() / path).parent_path());
    folder_.write(path.string(), text);
  }
  fs::path root() const { return folder_.path(); }

 private:
  TemporaryFolder folder_;
};

constexpr auto kVersion2Mount = "30 24 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";
constexpr auto kVersion1Mounts =
    "31 24 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    "32 24 0:28 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:9 - cgroup cgroup rw,cpu,cpuacct\n";

TEST(CgroupQuota, IsNoneWithoutFiles) {
  const FileTree tree;
  EXPECT_EQ(cgroup_cpu_quota(tree.root()), std::nullopt);
}

TEST(CgroupQuota, ReadsVersion2) {
  const FileTree tree;
  tree.write("proc/self/cgroup", "0::/app\n");
  tree.write("proc/self/mountinfo", kVersion2Mount);
  tree.write("sys/fs/cgroup/app/cpu.max", "150000 100000\n");
  EXPECT_EQ(cgroup_cpu_quota(tree.root()), 1.5);
  tree.write("sys/fs/cgroup/app/cpu.max", "max 100000\n");
  EXPECT_EQ(cgroup_cpu_quota(tree.root()), std::nullopt);
}

TEST(CgroupQuota, TakesTheSmallestOfAGroupAndThoseAboveIt) {
  const FileTree tree;
  tree.write("proc/self/cgroup", "0::/slice/unit/leaf\n");
  tree.write("proc/self/mountinfo", kVersion2Mount);
  tree.write("sys/fs/cgroup/slice/unit/leaf/cpu.max", "max 100000\n");
  tree.write("sys/fs/cgroup/slice/unit/cpu.max", "800000 100000\n");
  tree.write("sys/fs/cgroup/slice/cpu.max", "100000 50000\n");
  EXPECT_EQ(cgroup_cpu_quota(tree.root()), 2.0);
  tree.write("sys/fs/cgroup/cpu.max", "50000 100000\n");
  EXPECT_EQ(cgroup_cpu_quota(tree.root()), 0.5);
}

TEST(CgroupQuota, ReadsVersion1) {
  const FileTree tree;
  tree.write("proc/self/cgroup", "5:memory:/other\n4:cpu,cpuacct:/box\n0::/\n");
  tree.write("proc/self/mountinfo", kVersion1Mounts);
  tree.write("sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us", "300000\n");
  tree.write("sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cgroup_cpu_quota(tree.root()), 3.0);
  tree.write("sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(cgroup_cpu_quota(tree.root()), std::nullopt);
}

TEST(CgroupQuota, FindsTheGroupInAContainerThatSeesOnlyItsOwn) {
  const FileTree tree;
  tree.write("proc/self/cgroup", "4:cpu,cpuacct:/docker/abc/inner\n");
  tree.write("proc/self/mountinfo", "32 24 0:28 /docker/abc /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu,cpuacct\n");
  tree.write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "400000\n");
  tree.write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cgroup_cpu_quota(tree.root()), 4.0);
  tree.write("sys/fs/cgroup/cpu/inner/cpu.cfs_quota_us", "100000\n");
  tree.write("sys/fs/cgroup/cpu/inner/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cgroup_cpu_quota(tree.root()), 1.0);
}

TEST(CgroupQuota, SurvivesFilesThatMakeNoSense) {
  const FileTree tree;
  tree.write("proc/self/cgroup", "\n:\n0:\nnonsense\n0::/../../up\n");
  tree.write("proc/self/mountinfo", std::string("short\n - \na b c d e - cgroup2\n") + kVersion2Mount);
  tree.write("sys/fs/cgroup/cpu.max", "lots of it\n");
  EXPECT_EQ(cgroup_cpu_quota(tree.root()), std::nullopt);
  tree.write("sys/fs/cgroup/cpu.max", "100000 0\n");
  EXPECT_EQ(cgroup_cpu_quota(tree.root()), std::nullopt);
}

TEST(CacheSizes, AreReadFromTheKernelsFiles) {
  const FileTree tree;
  const auto add = [&](const std::string& index, const std::string& level, const std::string& type,
                       const std::string& size) {
    tree.write(index + "/level", level + "\n");
    tree.write(index + "/type", type + "\n");
    tree.write(index + "/size", size + "\n");
  };
  add("index0", "1", "Data", "48K");
  add("index1", "1", "Instruction", "32K");
  add("index2", "2", "Unified", "2M");
  auto sizes = read_cache_sizes(tree.root());
  ASSERT_TRUE(sizes);
  EXPECT_EQ(sizes->l1d, 48U << 10);
  EXPECT_EQ(sizes->l2, 2U << 20);
  EXPECT_EQ(sizes->l3, 2U << 20);  // no third level
  add("index3", "3", "Unified", "32768K");
  sizes = read_cache_sizes(tree.root());
  ASSERT_TRUE(sizes);
  EXPECT_EQ(sizes->l3, 32U << 20);
}

TEST(CacheSizes, AreNotReadFromAnythingElse) {
  const FileTree tree;
  EXPECT_EQ(read_cache_sizes(tree.root()), std::nullopt);
  tree.write("index0/level", "1");
  tree.write("index0/type", "Data");
  tree.write("index0/size", "unknown");
  EXPECT_EQ(read_cache_sizes(tree.root()), std::nullopt);
}

TEST(CacheSizes, OfThisMachineAreSane) {
  const CacheSizes& sizes = cache_sizes();
  EXPECT_GE(sizes.l1d, 8U << 10);
  EXPECT_GE(sizes.l2, sizes.l1d);
  EXPECT_GE(sizes.l3, sizes.l2);
}

TEST(UsableCpus, AreAtLeastOne) { EXPECT_GE(usable_cpus(), 1); }

}  // namespace
}  // namespace headwise
