// SPDX-License-Identifier: Apache-2.0
#include "headwise/runtime/isa.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <atomic>
#include <string>

#include "headwise/tensor/errors.h"

namespace headwise {
namespace {

constexpr Isa kBestFirst[] = {Isa::kAvx512, Isa::kAvx2, Isa::kNeon, Isa::kCanonical};
constexpr int kNotForced = -1;

constinit std::atomic<int> forced{kNotForced};

#if defined(__x86_64__)
#if defined(HEADWISE_WITHOUT_AVX2)
constexpr bool kBuiltForAvx2 = false;
#else
constexpr bool kBuiltForAvx2 = true;
#endif
#if defined(HEADWISE_WITHOUT_AVX512)
constexpr bool kBuiltForAvx512 = false;
#else
constexpr bool kBuiltForAvx512 = true;
#endif

// The two whose names clang 14's run-time support does not know.
bool ask_for_f16c_and_lzcnt() {
  constexpr unsigned kFirstLeaf = 1, kExtendedLeaf = 0x80000001;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(kFirstLeaf, &a, &b, &c, &d) == 0 || (c & bit_F16C) == 0) return false;
  return __get_cpuid(kExtendedLeaf, &a, &b, &c, &d) != 0 && (c & bit_LZCNT) != 0;
}

// Asked once: a virtual machine takes microseconds to answer.
bool machine_has_f16c_and_lzcnt() {
  static const bool has = ask_for_f16c_and_lzcnt();
  return has;
}

// The compiler's run-time support asks cpuid, and xgetbv whether the system saves the registers.
bool machine_has_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
         __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("aes") && __builtin_cpu_supports("pclmul") &&
         machine_has_f16c_and_lzcnt();
}

bool machine_has_avx512() {
  return machine_has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512cd");
}
#endif

// "avx512, avx2, canonical"
std::string join_names(const std::vector<Isa>& isas) {
  std::string names;
  for (Isa isa : isas) {
    if (!names.empty()) names += ", ";
    names += isa_name(isa);
  }
  return names;
}

}  // namespace

std::string_view isa_name(Isa isa) {
  switch (isa) {
    case Isa::kAvx512:
      return "avx512";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kNeon:
      return "neon";
    case Isa::kCanonical:
      return "canonical";
  }
  return "unknown";
}

Isa parse_isa(std::string_view text) {
  for (Isa isa : kBestFirst) {
    if (text == isa_name(isa)) return isa;
  }
  throw ArgumentError("parse_isa: text must be one of avx512, avx2, neon, canonical, got \"" + std::string(text) +
                      "\"");
}

bool has_isa(Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::kAvx512) return kBuiltForAvx512 && machine_has_avx512();
  if (isa == Isa::kAvx2) return kBuiltForAvx2 && machine_has_avx2();
#elif defined(__aarch64__)
  if (isa == Isa::kNeon) return true;  // part of the base architecture
#endif
  return isa == Isa::kCanonical;
}

std::vector<Isa> available_isas() {
  std::vector<Isa> available;
  for (Isa isa : kBestFirst) {
    if (has_isa(isa)) available.push_back(isa);
  }
  return available;
}

Isa best_isa() {
  for (Isa isa : kBestFirst) {
    if (has_isa(isa)) return isa;
  }
  return Isa::kCanonical;
}

void force_isa(std::optional<Isa> isa) {
  if (isa && !has_isa(*isa)) {
    throw ArgumentError("force_isa: this machine has no " + std::string(isa_name(*isa)) + "; it has " +
                        join_names(available_isas()));
  }
  forced.store(isa ? static_cast<int>(*isa) : kNotForced, std::memory_order_relaxed);
}

Isa chosen_isa() {
  const int choice = forced.load(std::memory_order_relaxed);
  return choice == kNotForced ? best_isa() : static_cast<Isa>(choice);
}

}  // namespace headwise
