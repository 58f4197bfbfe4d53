// Shape, TensorView and Place.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "base/place.hpp"
#include "base/tensor_view.hpp"

namespace trireme {
namespace {

std::vector<float> counted(std::size_t n) {
  std::vector<float> values(n);
  std::iota(values.begin(), values.end(), 0.0f);
  return values;
}

TEST(Shape, CountsElementsAndIndexesFromBothEnds) {
  const Shape shape{2, 3, 5};
  EXPECT_EQ(shape.rank(), 3);
  EXPECT_EQ(shape.elements(), 30);
  EXPECT_EQ(shape[-1], 5);
  EXPECT_EQ(shape[0], 2);
  EXPECT_EQ(Shape{}.elements(), 1);
  EXPECT_EQ((Shape{4, 0, 3}).elements(), 0);
  EXPECT_EQ(format("{}", shape), "[2, 3, 5]");
  EXPECT_NE(shape, (Shape{2, 3}));
  EXPECT_NE((Shape{2}), (Shape{2, 0}));
  EXPECT_THROW(shape[3], Error);
  EXPECT_THROW(shape[-4], Error);
  EXPECT_THROW((Shape{1, 2, 3, 4, 5}), Error);
}

TEST(TensorView, IsRowMajor) {
  auto values = counted(24);
  const TensorView view(values.data(), DType::f32, {2, 3, 4});
  EXPECT_EQ(view.stride(0), 12);
  EXPECT_EQ(view.stride(1), 4);
  EXPECT_EQ(view.stride(2), 1);
  EXPECT_EQ(view.bytes(), 96u);
  EXPECT_TRUE(view.is_dense());
  EXPECT_EQ(view.span<float>()[23], 23.0f);
  EXPECT_THROW(view.data<double>(), Error);
}

TEST(TensorView, RowsAndColumnsAreWindows) {
  auto values = counted(20);
  const TensorView matrix(values.data(), DType::f32, {4, 5});
  const TensorView rows = matrix.rows(1, 2);
  EXPECT_EQ(rows.shape(), (Shape{2, 5}));
  EXPECT_EQ(rows.data<float>()[0], 5.0f);
  EXPECT_TRUE(rows.is_dense());

  const TensorView part = rows.columns(2, 3);
  EXPECT_EQ(part.shape(), (Shape{2, 3}));
  EXPECT_EQ(part.stride(0), 5);
  EXPECT_EQ(part.data<float>()[0], 7.0f);
  EXPECT_EQ(part.data<float>()[part.stride(0)], 12.0f);
  EXPECT_EQ(part.rows(1, 1).data<float>()[0], 12.0f) << "rows step by the stride";
  EXPECT_FALSE(part.is_dense());
  EXPECT_THROW(part.span<float>(), Error);
  EXPECT_THROW(part.reshape({6}), Error);

  part.data<float>()[0] = -1;  // a window, not a copy
  EXPECT_EQ(values[7], -1.0f);
  EXPECT_TRUE(matrix.rows(2, 1).columns(1, 2).is_dense()) << "one row is dense";
  EXPECT_EQ(matrix.rows(4, 0).elements(), 0);
}

TEST(TensorView, RefusesWindowsThatReachOutside) {
  auto values = counted(20);
  const TensorView matrix(values.data(), DType::f32, {4, 5});
  EXPECT_THROW(matrix.rows(3, 2), Error);
  EXPECT_THROW(matrix.rows(-1, 1), Error);
  EXPECT_THROW(matrix.columns(4, 2), Error);
  EXPECT_THROW(matrix.reshape({2, 2, 5}).columns(0, 1), Error);
  EXPECT_THROW(matrix.reshape({4, 4}), Error);
}

TEST(TensorView, OnMetaHasAShapeAndNoMemory) {
  const TensorView view(nullptr, DType::bf16, {8, 6}, Device::meta());
  EXPECT_EQ(view.rows(2, 3).columns(1, 2).raw(), nullptr);
  EXPECT_EQ(view.rows(2, 3).shape(), (Shape{3, 6}));
  EXPECT_EQ(view.bytes(), 96u);
  EXPECT_TRUE(view.reshape({48}).device().is_meta());
  EXPECT_TRUE(TensorView().empty());
  EXPECT_FALSE(view.empty());
}

TEST(Place, AGradientOfAGradientLiesWhereTheValueDoes) {
  for (const Place place :
       {Place::replicate, Place::invariant, Place::varying, Place::partial}) {
    EXPECT_EQ(gradient_place(gradient_place(place)), place) << name_of(place);
  }
  EXPECT_EQ(gradient_place(Place::replicate), Place::partial);
  EXPECT_EQ(gradient_place(Place::invariant), Place::invariant);
}

}  // namespace
}  // namespace trireme
