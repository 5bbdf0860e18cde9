// SPDX-License-Identifier: Apache-2.0
#include "cli/paths.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "cli/usage.h"

namespace headwise::cli {
namespace {

namespace fs = std::filesystem;

class Paths : public ::testing::Test {
 protected:
  Paths() : folder_(fs::path(::testing::TempDir()) / ("paths_" + std::to_string(::getpid()))) {
    fs::create_directories(folder_ / "model");
    for (const char* name : {"x.npy", "other.npy", "model/model.safetensors", "model/model.safetensors.index.json"}) {
      std::ofstream(folder_ / name) << "x";
    }
    fs::create_symlink(folder_ / "model/model.safetensors", folder_ / "link.safetensors");
    fs::create_symlink(folder_ / "x.npy", folder_ / "link.npy");
  }
  ~Paths() override { fs::remove_all(folder_); }

  std::string at(const char* name) const { return (folder_ / name).string(); }
  std::string error_of(const char* out, const char* in) const {
    try {
      check_output_apart("--out", at(out), at(in));
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  }
  std::string refused(const char* out) const {
    return "--out '" + at(out) + "' would replace what is read; give another name";
  }

 private:
  fs::path folder_;
};

TEST_F(Paths, what_is_read_is_not_replaced_by_whatever_path) {
  EXPECT_EQ(error_of("x.npy", "x.npy"), refused("x.npy"));
  EXPECT_EQ(error_of("model/../x.npy", "x.npy"), refused("model/../x.npy"));
  EXPECT_EQ(error_of("link.npy", "x.npy"), refused("link.npy"));
  EXPECT_EQ(error_of("x.npy", "link.npy"), refused("x.npy"));
  EXPECT_EQ(error_of("model/model.safetensors", "model"), refused("model/model.safetensors"));
  EXPECT_EQ(error_of("link.safetensors", "model"), refused("link.safetensors"));
  EXPECT_EQ(error_of("model/model.safetensors", "model/model.safetensors.index.json"),
            refused("model/model.safetensors"));
}

TEST_F(Paths, other_files_may_be_replaced_and_new_ones_made) {
  EXPECT_EQ(error_of("other.npy", "x.npy"), "");
  EXPECT_EQ(error_of("new.npy", "x.npy"), "");
  EXPECT_EQ(error_of("model/new.npy", "model"), "");
  EXPECT_EQ(error_of("x.npy", "model"), "");
  EXPECT_EQ(error_of("x.npy", "absent"), "");
  EXPECT_NO_THROW(check_output_apart("--out", "", at("x.npy")));
}

TEST_F(Paths, a_path_is_shown_as_a_word_of_the_shell) {
  EXPECT_EQ(shell_word("models/book-1.0"), "models/book-1.0");
  EXPECT_EQ(shell_word("mo del"), "'mo del'");
  EXPECT_EQ(shell_word("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_word(""), "''");
}

}  // namespace
}  // namespace headwise::cli
