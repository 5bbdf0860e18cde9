// SPDX-License-Identifier: Apache-2.0
#include "headwise/runtime/isa.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <thread>

#include "headwise/tensor/errors.h"

namespace headwise {
namespace {

template <class Call>
std::string argument_error_of(Call call) {
  try {
    call();
  } catch (const ArgumentError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(Isa, IsNamedAndParsed) {
  for (Isa isa : {Isa::kCanonical, Isa::kNeon, Isa::kAvx2, Isa::kAvx512}) EXPECT_EQ(parse_isa(isa_name(isa)), isa);
  EXPECT_EQ(isa_name(Isa::kAvx512), "avx512");
  EXPECT_EQ(isa_name(Isa::kAvx2), "avx2");
  EXPECT_EQ(isa_name(Isa::kNeon), "neon");
  EXPECT_EQ(isa_name(Isa::kCanonical), "canonical");
}

TEST(Isa, RefusesOtherNames) {
  EXPECT_EQ(argument_error_of([] { parse_isa("AVX2"); }),
            "parse_isa: text must be one of avx512, avx2, neon, canonical, got \"AVX2\"");
  EXPECT_EQ(argument_error_of([] { parse_isa(""); }),
            "parse_isa: text must be one of avx512, avx2, neon, canonical, got \"\"");
}

TEST(Isa, AlwaysHasTheCanonicalProgramAsTheLastChoice) {
  ASSERT_FALSE(available_isas().empty());
  EXPECT_EQ(available_isas().back(), Isa::kCanonical);
  EXPECT_EQ(available_isas().front(), best_isa());
  for (Isa isa : available_isas()) EXPECT_TRUE(has_isa(isa));
}

TEST(Isa, IsForcedForTheWholeProcessAndReleased) {
  for (Isa isa : available_isas()) {
    force_isa(isa);
    EXPECT_EQ(chosen_isa(), isa);
    std::thread([&] { EXPECT_EQ(chosen_isa(), isa); }).join();
  }
  force_isa(std::nullopt);
  EXPECT_EQ(chosen_isa(), best_isa());
}

TEST(Isa, RefusesWhatThisMachineLacksAndKeepsTheChoice) {
#if defined(__x86_64__)
  const Isa missing = Isa::kNeon;
#else
  const Isa missing = Isa::kAvx2;
#endif
  std::string names;
  for (Isa isa : available_isas()) names += (names.empty() ? "" : ", ") + std::string(isa_name(isa));
  force_isa(Isa::kCanonical);
  EXPECT_EQ(argument_error_of([&] { force_isa(missing); }),
            "force_isa: this machine has no " + std::string(isa_name(missing)) + "; it has " + names);
  EXPECT_EQ(chosen_isa(), Isa::kCanonical);
  force_isa(std::nullopt);
}

#if defined(__x86_64__)
// The kernel lists a flag only when it also saves the registers behind it.
TEST(Isa, AgreesWithTheKernelsListOfFlags) {
  std::ifstream file("/proc/cpuinfo");
  std::string flags;
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("flags", 0) == 0) {
      flags = line + " ";
      break;
    }
  }
  if (flags.empty()) GTEST_SKIP() << "no flags in /proc/cpuinfo";
  const auto all_listed = [&](const std::string& names) {
    std::istringstream stream(names);
    for (std::string name; stream >> name;) {
      if (flags.find(" " + name + " ") == std::string::npos) return false;
    }
    return true;
  };
  const bool avx2 = all_listed("avx2 fma bmi1 bmi2 f16c abm aes pclmulqdq");
  EXPECT_EQ(has_isa(Isa::kAvx2), avx2);
  EXPECT_EQ(has_isa(Isa::kAvx512), avx2 && all_listed("avx512f avx512bw avx512dq avx512vl avx512cd"));
}
#endif

}  // namespace
}  // namespace headwise
