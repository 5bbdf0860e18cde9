#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The NEON bodies against the canonical program: cross-compiled, run by qemu. Right, not timed.
# Needs g++-aarch64-linux-gnu, qemu-user-static, libgtest-dev, libhwy-dev, ninja-build. Usage: tests/neon_test.sh [folder]
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build/neon}
mkdir -p "$build/include"
# Only these headers of the host: its others belong to another processor.
ln -sfn /usr/include/hwy "$build/include/hwy"
ln -sfn /usr/include/gtest "$build/include/gtest"
disabled='(HWY_SSSE3|HWY_SSE4|HWY_AVX3_DL|HWY_SVE|HWY_SVE2|HWY_SVE_256|HWY_SVE2_128)'
launcher=$(command -v ccache || true)
gtest=/usr/src/googletest/googletest
{
  echo "builddir = $build"
  echo "rule cxx"
  echo "  command = $launcher aarch64-linux-gnu-g++ -std=c++20 -O2 -ffp-contract=off -fno-math-errno -I. -I$gtest" \
    "-I$build/include '-DHWY_DISABLED_TARGETS=$disabled' -MMD -MF \$out.d -c \$in -o \$out"
  echo "  depfile = \$out.d"
  echo "rule link"
  echo "  command = aarch64-linux-gnu-g++ -static \$in -o \$out -pthread"
  objects=""
  sources=$(find headwise/tensor headwise/runtime headwise/kernels -name '*.cc' ! -name '*_test.cc' | sort)
  for source in $sources tests/bits_test.cc tests/linear_bits_test.cc $gtest/src/gtest-all.cc $gtest/src/gtest_main.cc; do
    object=$build/$(echo "$source" | tr / _).o
    echo "build $object: cxx $source"
    objects="$objects $object"
  done
  echo "build $build/bits_test: link $objects"
} >"$build/build.ninja"
ninja -f "$build/build.ninja"
HEADWISE_TEST_CASES=${HEADWISE_TEST_CASES:-3} qemu-aarch64-static "$build/bits_test" --gtest_brief=1
