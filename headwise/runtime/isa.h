// SPDX-License-Identifier: Apache-2.0
// The instruction set that kernels run on: what the machine has, what was asked for.
#ifndef HEADWISE_RUNTIME_ISA_H_
#define HEADWISE_RUNTIME_ISA_H_

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace headwise {

// Best last. kCanonical is the plain program that every other one equals bit for bit; every machine has it.
enum class Isa : std::uint8_t { kCanonical, kNeon, kAvx2, kAvx512 };

// "avx512", "avx2", "neon", "canonical".
std::string_view isa_name(Isa isa);

// Throws ArgumentError for any other text.
Isa parse_isa(std::string_view text);

// avx512: F, BW, DQ, VL, CD and all of avx2. avx2: with FMA, BMI, BMI2, F16C, LZCNT, AES, PCLMUL. The operating
// system must save their registers as well, and the library must have been built with that set (HEADWISE_X86_ISAS).
bool has_isa(Isa isa);

// What this machine and this build have, best first.
std::vector<Isa> available_isas();
Isa best_isa();

// From now on every call of this process runs on `isa`; without one, on the best again. Calls that are under way may
// finish on the former. Throws ArgumentError when this machine lacks it.
void force_isa(std::optional<Isa> isa);

// The forced one, else the best.
Isa chosen_isa();

}  // namespace headwise

#endif  // HEADWISE_RUNTIME_ISA_H_
