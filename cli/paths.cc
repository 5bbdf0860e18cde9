// SPDX-License-Identifier: Apache-2.0
#include "cli/paths.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "cli/usage.h"
#include "headwise/io/file_error.h"

namespace headwise::cli {
namespace {

namespace fs = std::filesystem;

bool is_same(const fs::path& a, const fs::path& b) {
  std::error_code error;  // a path that is not there is no file that is read
  return fs::equivalent(a, b, error) && !error;
}

// The folder in which a file is what `in` holds: a model's own, or that of the parts under an index.
fs::path folder_of(const fs::path& in) {
  std::error_code error;
  if (fs::is_directory(in, error)) return in;
  if (!in.filename().string().ends_with(".index.json")) return {};
  const fs::path parent = in.parent_path();
  return parent.empty() ? "." : parent;
}

}  // namespace

void check_output_apart(std::string_view argument, const std::string& out, const std::string& in) {
  std::error_code error;
  if (out.empty() || !fs::exists(out, error)) return;
  const fs::path folder = folder_of(in);
  const fs::path target = fs::weakly_canonical(out, error);  // the links of `out` are followed on writing
  if (!is_same(out, in) && (folder.empty() || !is_same(target.parent_path(), folder))) return;
  throw UsageError(fmt::format("{} {} would replace what is read; give another name", argument, quote_name(out)));
}

std::string shell_word(std::string_view path) {
  constexpr std::string_view kPlain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-/+:,@%=";
  if (!path.empty() && path.find_first_not_of(kPlain) == std::string_view::npos) return std::string(path);
  std::string word = "'";
  for (const char letter : path) word += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  return word + "'";
}

}  // namespace headwise::cli
