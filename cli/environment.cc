// SPDX-License-Identifier: Apache-2.0
#include "cli/environment.h"

#include <fmt/format.h>

#include <charconv>
#include <string_view>

#include "cli/usage.h"
#include "headwise/io/file_error.h"
#include "headwise/runtime/isa.h"
#include "headwise/runtime/threads.h"

namespace headwise::cli {

void apply_environment(const std::function<const char*(const char*)>& variable) {
  constexpr const char* kThreads = "HEADWISE_NUM_THREADS";
  constexpr const char* kIsa = "HEADWISE_ISA";
  if (const char* given = variable(kThreads)) {
    constexpr int kMost = 4096;
    const std::string_view text(given);
    int count = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
    if (error != std::errc() || end != text.data() + text.size() || count < 1 || count > kMost) {
      throw UsageError(
          fmt::format("{} must be a whole number from 1 to {}, got {}", kThreads, kMost, quote_name(text)));
    }
    set_num_threads(count);
  }
  if (const char* given = variable(kIsa)) {
    try {
      force_isa(parse_isa(given));
    } catch (const std::invalid_argument& error) {
      throw UsageError(fmt::format("{}: {}", kIsa, error.what()));
    }
  }
}

}  // namespace headwise::cli
