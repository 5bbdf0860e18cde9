// SPDX-License-Identifier: Apache-2.0
// What has a name like a file but is none, or cannot be read or written: refused by name, at once, by every command.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/hostile/index_lies.h"
#include "tests/hostile/layer_lies.h"
#include "tests/hostile/npz_lies.h"
#include "tests/support/bounded_process.h"
#include "tests/support/command_result.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tiny_encoder.h"

namespace headwise::cli {
namespace {

using Words = std::vector<std::string>;

// Somebody without rights, which root must become to be refused anything.
constexpr unsigned kNobody = 65534;

struct Special {
  const char* what;
  void (*make)(const std::string& path);
  const char* reason;
  unsigned user = 0;
};

void make_socket(const std::string& path) {
  const int descriptor = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  ASSERT_LT(path.size(), sizeof(address.sun_path));
  path.copy(address.sun_path, path.size());
  ASSERT_EQ(::bind(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  ::close(descriptor);
}

void make_unreadable(const std::string& path) {
  ASSERT_GE(::open(path.c_str(), O_WRONLY | O_CREAT, 0200), 0);
  ::chmod(path.substr(0, path.rfind('/')).c_str(), 0755);
}

void make_huge(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT, 0644);
  ASSERT_EQ(::ftruncate(descriptor, off_t{1} << 40), 0);
  ::close(descriptor);
}

const Special kSpecials[] = {
    {"a folder", [](const std::string& path) { ::mkdir(path.c_str(), 0755); }, "is a directory, not a file"},
    {"a pipe", [](const std::string& path) { ::mkfifo(path.c_str(), 0644); }, "is a pipe, not a file"},
    {"a socket", make_socket, "cannot be opened: No such device or address"},
    {"endless zeros", [](const std::string& path) { ASSERT_EQ(::symlink("/dev/zero", path.c_str()), 0); },
     "is a device, not a file"},
    {"a device without a byte", [](const std::string& path) { ASSERT_EQ(::symlink("/dev/null", path.c_str()), 0); },
     "is a device, not a file"},
    {"a link to itself", [](const std::string& path) { ASSERT_EQ(::symlink(path.c_str(), path.c_str()), 0); },
     "cannot be opened: Too many levels of symbolic links"},
    {"a link to nothing", [](const std::string& path) { ASSERT_EQ(::symlink("absent", path.c_str()), 0); },
     "no such file"},
    {"a file without rights", make_unreadable, "cannot be opened: Permission denied", kNobody},
};

// In place of a model: a folder may be one.
Special as_model(Special special) {
  if (special.what != std::string("a folder")) return special;
  special.reason = "is a folder with neither model.safetensors nor model.safetensors.index.json";
  return special;
}

std::string outcome(const Words& words, unsigned user = 0) {
  Bounds bounds;
  bounds.user = ::getuid() == 0 ? user : 0;
  return in_bounded_process(bounds, [&] {
    const Result result = cli::run(words);
    return std::to_string(result.code) + "|" + result.out + "|" + result.err;
  });
}

class SpecialFiles : public testing::Test {
 protected:
  void SetUp() override {
    folder_.write("layer.safetensors", zeros_file(good_zeros(), good_facts()));
    folder_.write("x.npy", npz_content());
    write_tiny_model(folder_);
  }

  // Takes the place of `name` for one call.
  void expect_refused(const Special& special, const std::string& name, const Words& words) {
    const std::string path = folder_.file(name);
    std::filesystem::remove(path);
    special.make(path);
    const auto before = folder_.names();
    EXPECT_EQ(outcome(words, special.user), "2||headwise " + words[0] + ": " + path + ": " + special.reason + "\n")
        << special.what << " as " << name;
    EXPECT_EQ(folder_.names(), before) << special.what << " as " << name;
    std::filesystem::remove(path);
  }

  TemporaryFolder folder_;
  std::string layer_ = folder_.file("layer.safetensors"), x_ = folder_.file("x.npy");
};

TEST_F(SpecialFiles, AsALayerOrAnInputOfRun) {
  for (const Special& special : kSpecials) {
    expect_refused(as_model(special), "l.safetensors", {"run", folder_.file("l.safetensors"), x_});
    for (const char* name : {"f.npy", "f.npz", "f.safetensors"}) {
      expect_refused(special, name, {"run", layer_, folder_.file(name), "--out", folder_.file("out.npy")});
      expect_refused(special, name, {"run", layer_, x_, "--keys-values", folder_.file(name)});
    }
  }
}

TEST_F(SpecialFiles, AsPartsOfAModel) {
  const Words attend{"attend", "--model", folder_.path(), "--ids", "1", "--save", folder_.file("trace")};
  for (const Special& special : kSpecials) {
    for (const char* name : {"config.json", "model.safetensors", "vocab.txt"}) {
      write_tiny_model(folder_);
      // A vocabulary may be missing.
      if (std::string(name) == "vocab.txt" && std::string(special.reason) == "no such file") continue;
      expect_refused(special, name, attend);
    }
  }
}

TEST_F(SpecialFiles, AsPartsOfAModelInSeveralFiles) {
  std::filesystem::remove(folder_.file("model.safetensors"));
  for (const Special& special : kSpecials) {
    for (const char* name : {"a.safetensors", "model.safetensors.index.json"}) {
      write_shards(folder_);
      folder_.write("model.safetensors.index.json", index_of("a.safetensors", "b.safetensors", "b.safetensors"));
      if (std::string(special.reason) == "no such file") continue;  // the index tells which file is missing
      const bool is_index = std::string(name).ends_with(".json");
      expect_refused(is_index ? as_model(special) : special, name,
                     {"inspect", folder_.file("model.safetensors.index.json")});
    }
  }
}

TEST_F(SpecialFiles, ANameThatIsTooLongOrLeadsThroughAFile) {
  const std::string through = x_ + "/y.npy", deep = folder_.file(std::string(300, 'n') + ".npy");
  EXPECT_EQ(outcome({"run", layer_, through}), "2||headwise run: " + through + ": cannot be opened: Not a directory\n");
  EXPECT_EQ(outcome({"run", layer_, deep}), "2||headwise run: " + deep + ": cannot be opened: File name too long\n");
  EXPECT_EQ(outcome({"run", "", x_}), "2||headwise run: LAYER must not be empty\nTry 'headwise run --help'.\n");
}

TEST_F(SpecialFiles, ATerabyteOfNothingCostsNoMemory) {
  for (const char* name : {"f.npy", "f.npz", "f.safetensors"}) {
    make_huge(folder_.file(name));
    const std::string text = outcome({"run", layer_, folder_.file(name)});
    EXPECT_EQ(text.find("2||headwise run: " + folder_.file(name) + ": "), 0U) << text;
    EXPECT_EQ(text.find("[took"), std::string::npos) << text;
    std::filesystem::remove(folder_.file(name));
  }
}

TEST_F(SpecialFiles, AnOutputThatIsNoFileIsRefusedAndNothingIsLeftBehind) {
  const auto refused = [&](const std::string& out, const std::string& reason, unsigned user = 0) {
    const auto before = folder_.names();
    EXPECT_EQ(outcome({"run", layer_, x_, "--out", out}, user), "2||headwise run: " + out + ": " + reason + "\n");
    EXPECT_EQ(folder_.names(), before);
  };
  const auto made = [&](const char* name, const Special& special) {
    special.make(folder_.file(name));
    return folder_.file(name);
  };
  refused(made("folder.npy", kSpecials[0]), "is a directory, not a file");
  refused(made("pipe.npy", kSpecials[1]), "is a pipe, not a file");
  refused(made("zero.npy", kSpecials[3]), "is a device, not a file");
  refused(folder_.file("absent/out.npy"), "cannot be created: No such file or directory");
  refused(x_ + "/out.npy", "cannot be created: Not a directory");
  ::chmod(folder_.path().c_str(), 0555);
  refused(folder_.file("out.npy"), "cannot be created: Permission denied", kNobody);
  ::chmod(folder_.path().c_str(), 0755);
}

TEST_F(SpecialFiles, WhatIsReadIsNotReplaced) {
  const std::string before = folder_.read("x.npy");
  EXPECT_EQ(outcome({"run", layer_, x_, "--out", x_}), "2||headwise run: --out '" + x_ +
                                                           "' would replace what is read; give another name\n"
                                                           "Try 'headwise run --help'.\n");
  EXPECT_EQ(folder_.read("x.npy"), before);
}

}  // namespace
}  // namespace headwise::cli
