// SPDX-License-Identifier: Apache-2.0
// Random numbers: Philox as a pure function of its counter, and torch's own generator for equal initial weights.
#ifndef HEADWISE_RUNTIME_RANDOM_H_
#define HEADWISE_RUNTIME_RANDOM_H_

#include <array>
#include <cstdint>
#include <span>

namespace headwise {

// Philox4x32 with 10 rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
std::array<std::uint32_t, 4> philox4x32_10(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key);

// The stream behind torch.manual_seed(seed) on a CPU: MT19937 with its classic 32-bit seeding.
class TorchGenerator {
 public:
  explicit TorchGenerator(std::uint64_t seed);

  std::uint32_t next32();
  // 53 bits of two draws, high word first.
  double uniform53();
  // torch.rand in float32: 24 bits in [0, 1).
  float uniform24();
  // As torch's uniform_(from, to): one fused multiply-add per value. float32 takes 24 bits of one draw, float64 53
  // bits of two.
  void fill_uniform(std::span<float> out, double from, double to);
  void fill_uniform(std::span<double> out, double from, double to);
  // As torch's normal_(mean, stddev): pairs of 53-bit draws below 16 values, blocks of 16 from there on. Equal to
  // torch's up to the last bits of its vector logarithm and cosine.
  void fill_normal(std::span<float> out, double mean, double stddev);
  void fill_normal(std::span<double> out, double mean, double stddev);

 private:
  void refill();

  static constexpr int kWords = 624;
  std::array<std::uint32_t, kWords> state_{};
  int used_ = kWords;
  bool has_spare_normal_ = false;
  double spare_normal_ = 0;

  double normal_pairwise();
  template <class T>
  void fill_normal_blocks(std::span<T> out, double mean, double stddev);
};

}  // namespace headwise

#endif  // HEADWISE_RUNTIME_RANDOM_H_
