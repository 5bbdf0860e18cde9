// SPDX-License-Identifier: Apache-2.0
// Tensors for tests: random ones, written-out ones, and comparisons.
#ifndef HEADWISE_TESTS_SUPPORT_TENSORS_H_
#define HEADWISE_TESTS_SUPPORT_TENSORS_H_

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <initializer_list>
#include <string>
#include <vector>

#include "headwise/runtime/random.h"
#include "headwise/tensor/shape_check.h"
#include "headwise/tensor/tensor.h"

namespace headwise::testing {

template <class T, int Rank>
Tensor<T, Rank> random_tensor(const Shape<Rank>& shape, std::uint64_t seed) {
  Tensor<T, Rank> tensor(shape);
  TorchGenerator(seed).fill_uniform(std::span<T>(tensor.data(), static_cast<std::size_t>(tensor.elements())), -1, 1);
  return tensor;
}

using Rows = std::vector<std::vector<double>>;

template <class T>
Tensor<T, 2> matrix(const Rows& rows) {
  Tensor<T, 2> result(Shape<2>{static_cast<Index>(rows.size()), static_cast<Index>(rows[0].size())});
  for (Index i = 0; i < result.size(0); ++i) {
    for (Index j = 0; j < result.size(1); ++j) result(i, j) = static_cast<T>(rows[i][j]);
  }
  return result;
}

// True when some element lies further from its expected value than the tolerance.
template <class T>
bool differs(TensorView<const T, 2> got, const Rows& expected, double tolerance) {
  for (Index i = 0; i < got.size(0); ++i) {
    for (Index j = 0; j < got.size(1); ++j) {
      if (!(std::abs(static_cast<double>(got(i, j)) - expected[i][j]) <= tolerance)) return true;
    }
  }
  return false;
}

template <class T>
void expect_rows(TensorView<const T, 2> got, const Rows& expected, double tolerance, const std::string& what = "") {
  ASSERT_EQ(got.size(0), static_cast<Index>(expected.size())) << what;
  ASSERT_EQ(got.size(1), static_cast<Index>(expected[0].size())) << what;
  for (Index i = 0; i < got.size(0); ++i) {
    for (Index j = 0; j < got.size(1); ++j) {
      EXPECT_NEAR(static_cast<double>(got(i, j)), expected[i][j], tolerance)
          << what << " at (" << i << ", " << j << ")";
    }
  }
}

template <class T, int Rank>
void expect_near(const Tensor<T, Rank>& got, const Tensor<T, Rank>& expected, double tolerance,
                 const std::string& what = "") {
  ASSERT_EQ(got.shape(), expected.shape()) << what;
  for (Index i = 0; i < got.elements(); ++i) {
    ASSERT_NEAR(static_cast<double>(got.data()[i]), static_cast<double>(expected.data()[i]), tolerance)
        << what << " at element " << i << " of " << format_shape(got.shape());
  }
}

template <class T, int Rank>
bool same_bits(const Tensor<T, Rank>& a, const Tensor<T, Rank>& b) {
  return a.shape() == b.shape() && std::memcmp(a.data(), b.data(), sizeof(T) * a.elements()) == 0;
}

// The text of the error that a call throws; a call that throws nothing, or another type, fails the test.
template <class Error, class Call>
std::string error_text(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another type of error: " << error.what();
    return "";
  }
  ADD_FAILURE() << "no error";
  return "";
}

}  // namespace headwise::testing

#endif  // HEADWISE_TESTS_SUPPORT_TENSORS_H_
