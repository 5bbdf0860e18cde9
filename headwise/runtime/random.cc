// SPDX-License-Identifier: Apache-2.0
#include "headwise/runtime/random.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace headwise {

std::array<std::uint32_t, 4> philox4x32_10(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
  constexpr std::uint64_t kMultiplier0 = 0xD2511F53;
  constexpr std::uint64_t kMultiplier1 = 0xCD9E8D57;
  constexpr std::uint32_t kWeyl0 = 0x9E3779B9;
  constexpr std::uint32_t kWeyl1 = 0xBB67AE85;
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = kMultiplier0 * counter[0];
    const std::uint64_t product1 = kMultiplier1 * counter[2];
    const auto high0 = static_cast<std::uint32_t>(product0 >> 32);
    const auto high1 = static_cast<std::uint32_t>(product1 >> 32);
    counter = {high1 ^ counter[1] ^ key[0], static_cast<std::uint32_t>(product1), high0 ^ counter[3] ^ key[1],
               static_cast<std::uint32_t>(product0)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return counter;
}

TorchGenerator::TorchGenerator(std::uint64_t seed) {
  state_[0] = static_cast<std::uint32_t>(seed);
  for (int i = 1; i < kWords; ++i) {
    state_[i] = 1812433253U * (state_[i - 1] ^ (state_[i - 1] >> 30)) + static_cast<std::uint32_t>(i);
  }
}

void TorchGenerator::refill() {
  constexpr int kShift = 397;
  for (int i = 0; i < kWords; ++i) {
    const std::uint32_t mixed = (state_[i] & 0x80000000U) | (state_[(i + 1) % kWords] & 0x7FFFFFFFU);
    state_[i] = state_[(i + kShift) % kWords] ^ (mixed >> 1) ^ ((mixed & 1U) != 0 ? 0x9908B0DFU : 0U);
  }
  used_ = 0;
}

std::uint32_t TorchGenerator::next32() {
  if (used_ == kWords) refill();
  std::uint32_t word = state_[used_++];
  word ^= word >> 11;
  word ^= (word << 7) & 0x9D2C5680U;
  word ^= (word << 15) & 0xEFC60000U;
  return word ^ (word >> 18);
}

double TorchGenerator::uniform53() {
  const std::uint64_t high = next32();
  const std::uint64_t low = next32();
  return static_cast<double>(((high << 32) | low) & ((1ULL << 53) - 1)) * 0x1p-53;
}

float TorchGenerator::uniform24() { return static_cast<float>(next32() & 0xFFFFFFU) * 0x1p-24F; }

void TorchGenerator::fill_uniform(std::span<float> out, double from, double to) {
  const auto low = static_cast<float>(from);
  const float width = static_cast<float>(to) - low;
  for (float& value : out) value = std::fma(uniform24(), width, low);
}

void TorchGenerator::fill_uniform(std::span<double> out, double from, double to) {
  for (double& value : out) value = std::fma(uniform53(), to - from, from);
}

double TorchGenerator::normal_pairwise() {
  if (has_spare_normal_) {
    has_spare_normal_ = false;
    return spare_normal_;
  }
  const double u1 = uniform53();
  const double u2 = uniform53();
  const double radius = std::sqrt(-2.0 * std::log1p(-u2));
  const double angle = 2.0 * std::numbers::pi * u1;
  spare_normal_ = radius * std::sin(angle);
  has_spare_normal_ = true;
  return radius * std::cos(angle);
}

template <class T>
void TorchGenerator::fill_normal_blocks(std::span<T> out, double mean, double stddev) {
  constexpr std::size_t kBlock = 16;
  if (out.size() < kBlock) {
    for (T& value : out) value = static_cast<T>(normal_pairwise() * stddev + mean);
    return;
  }
  const auto draw = [this] { return static_cast<T>(sizeof(T) == 4 ? uniform24() : uniform53()); };
  const auto transform = [&](T* block) {
    for (std::size_t i = 0; i < kBlock / 2; ++i) {
      const double u1 = T{1} - block[i];  // in (0, 1], so that the logarithm is finite
      const double radius = std::sqrt(-2.0 * std::log(u1));
      const double angle = 2.0 * std::numbers::pi * block[i + kBlock / 2];
      block[i] = static_cast<T>(radius * std::cos(angle) * stddev + mean);
      block[i + kBlock / 2] = static_cast<T>(radius * std::sin(angle) * stddev + mean);
    }
  };
  for (T& value : out) value = draw();
  std::size_t at = 0;
  for (; at + kBlock <= out.size(); at += kBlock) transform(&out[at]);
  if (at < out.size()) {  // the last 16 values are drawn anew, as torch does
    T* tail = &out[out.size() - kBlock];
    for (std::size_t i = 0; i < kBlock; ++i) tail[i] = draw();
    transform(tail);
  }
}

void TorchGenerator::fill_normal(std::span<float> out, double mean, double stddev) {
  fill_normal_blocks(out, mean, stddev);
}

void TorchGenerator::fill_normal(std::span<double> out, double mean, double stddev) {
  fill_normal_blocks(out, mean, stddev);
}

}  // namespace headwise
