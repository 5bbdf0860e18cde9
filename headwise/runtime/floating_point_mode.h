// SPDX-License-Identifier: Apache-2.0
// The arithmetic that results are defined by: round to nearest even, denormals kept, no traps.
#ifndef HEADWISE_RUNTIME_FLOATING_POINT_MODE_H_
#define HEADWISE_RUNTIME_FLOATING_POINT_MODE_H_

#include <cstdint>

#if defined(__x86_64__)
#include <xmmintrin.h>
#elif !defined(__aarch64__)
#include <cfenv>
#endif

namespace headwise {

// Sets this thread's mode for the life of the object and then puts back what was there. Costs one register read when
// the mode is right already, which it is unless the caller asked for something else (flush to zero is common).
class FloatingPointMode {
 public:
  FloatingPointMode() : saved_(read()) {
    if ((saved_ & kControl) != kWanted) write((saved_ & ~kControl) | kWanted);
  }
  FloatingPointMode(const FloatingPointMode&) = delete;
  FloatingPointMode& operator=(const FloatingPointMode&) = delete;
  ~FloatingPointMode() {
    if ((saved_ & kControl) != kWanted) write(saved_);
  }

 private:
#if defined(__x86_64__)
  using Register = std::uint32_t;
  static constexpr Register kControl = 0xFFC0;  // FTZ, rounding, exception masks, DAZ; below them are sticky flags
  static constexpr Register kWanted = 0x1F80;
  static Register read() { return _mm_getcsr(); }
  static void write(Register mode) { _mm_setcsr(mode); }
#elif defined(__aarch64__)
  using Register = std::uint64_t;
  static constexpr Register kControl = ~Register{0};
  static constexpr Register kWanted = 0;
  static Register read() {
    Register mode;
    asm volatile("mrs %0, fpcr" : "=r"(mode));
    return mode;
  }
  static void write(Register mode) { asm volatile("msr fpcr, %0" : : "r"(mode) : "memory"); }
#else
  using Register = int;
  static constexpr Register kControl = ~Register{0};
  static constexpr Register kWanted = FE_TONEAREST;
  static Register read() { return std::fegetround(); }
  static void write(Register mode) { std::fesetround(mode); }
#endif

  const Register saved_;
};

}  // namespace headwise

#endif  // HEADWISE_RUNTIME_FLOATING_POINT_MODE_H_
