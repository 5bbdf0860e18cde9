// SPDX-License-Identifier: Apache-2.0
#include "cli/environment.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>
#include <vector>

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
    const std::vector<Isa> here = available_isas();
    const auto wanted = std::find_if(here.begin(), here.end(), [&](Isa isa) { return isa_name(isa) == given; });
    if (wanted == here.end()) {
      std::string names;
      for (const Isa isa : here) names += (names.empty() ? "" : ", ") + std::string(isa_name(isa));
      throw UsageError(
          fmt::format("{} must be one that this machine has ({}), got {}", kIsa, names, quote_name(given)));
    }
    force_isa(*wanted);
  }
}

}  // namespace headwise::cli
