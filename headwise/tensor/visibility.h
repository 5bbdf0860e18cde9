// SPDX-License-Identifier: Apache-2.0
// HEADWISE_EXPORT stands before an explicit instantiation of a public function template: GCC does not let the
// visibility of its declaration (cmake/visibility.cmake) reach it. Everything else needs no mark. Not installed.
#ifndef HEADWISE_TENSOR_VISIBILITY_H_
#define HEADWISE_TENSOR_VISIBILITY_H_

#if defined(HEADWISE_SHARED)
#define HEADWISE_EXPORT __attribute__((visibility("default")))
#else
#define HEADWISE_EXPORT
#endif

#endif  // HEADWISE_TENSOR_VISIBILITY_H_
