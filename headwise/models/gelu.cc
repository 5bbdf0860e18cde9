// SPDX-License-Identifier: Apache-2.0
#include "headwise/models/gelu.h"

#include <algorithm>
#include <string>

#include "headwise/kernels/gelu.h"
#include "headwise/models/row_tiles.h"
#include "headwise/runtime/run_tasks.h"
#include "headwise/tensor/errors.h"
#include "headwise/tensor/shape_check.h"
#include "headwise/tensor/visibility.h"

namespace headwise {
namespace {

GeluForm form_of(std::string_view activation) { return activation == "gelu_tanh" ? GeluForm::kTanh : GeluForm::kExact; }

template <class T>
void check_rows(const char* argument, const TensorView<const T, 2>& x, const TensorView<T, 2>& y) {
  check_shape("gelu", argument, y, {{"tokens", x.size(0)}, {"width", x.size(1)}});
  if (x.stride(1) == 1 && y.stride(1) == 1) return;
  throw ShapeError("gelu: rows must be dense");
}

}  // namespace

template <class T>
void gelu_forward(std::string_view activation, TensorView<const T, 2> x, TensorView<T, 2> y,
                  const Execution& execution) {
  check_activation("gelu", activation);
  check_rows("y", x, y);
  const auto apply = gelu_functions_for<T>(form_of(activation), chosen_isa()).forward;
  for_row_tiles(x.size(0), x.size(1), execution, [&](Index first, Index last) {
    for (Index t = first; t < last; ++t) apply(x.data() + t * x.stride(0), x.size(1), y.data() + t * y.stride(0));
  });
}

template <class T>
void gelu_backward(std::string_view activation, TensorView<const T, 2> x, TensorView<T, 2> grad,
                   const Execution& execution) {
  check_activation("gelu", activation);
  check_rows("grad", x, grad);
  const auto apply = gelu_functions_for<T>(form_of(activation), chosen_isa()).backward;
  for_row_tiles(x.size(0), x.size(1), execution, [&](Index first, Index last) {
    for (Index t = first; t < last; ++t) apply(x.data() + t * x.stride(0), x.size(1), grad.data() + t * grad.stride(0));
  });
}

#define HEADWISE_GELU_INSTANCE(T)                                                                         \
  template HEADWISE_EXPORT void gelu_forward(std::string_view, TensorView<const T, 2>, TensorView<T, 2>,  \
                                             const Execution&);                                           \
  template HEADWISE_EXPORT void gelu_backward(std::string_view, TensorView<const T, 2>, TensorView<T, 2>, \
                                              const Execution&);
HEADWISE_GELU_INSTANCE(float)
HEADWISE_GELU_INSTANCE(double)
#undef HEADWISE_GELU_INSTANCE

}  // namespace headwise
