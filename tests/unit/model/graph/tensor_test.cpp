// SPDX-License-Identifier: Apache-2.0
#include "runtime/model/graph/tensor.h"

#include <gtest/gtest.h>

#include <numeric>

#include "base/index.h"
#include "base/random.h"

// Views as strides against arrays that are really moved.
namespace hetpipe {
namespace graph_tensor_test {

using graph::Extent;
using graph::Leaf;
using graph::Tensor;
using graph::TensorShape;
using Extents = std::vector<std::int64_t>;

// An array that is moved element by element.
struct Array {
  Extents shape;
  std::vector<float> values;

  template <class Place>  // the place in `from` of an index of the result
  static Array made(Extents shape, const Array& from, const Place& place) {
    Array result{shape, {}};
    Extents index(shape.size(), 0);
    const std::int64_t count =
        std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
    for (std::int64_t e = 0; e < count; ++e) {
      std::int64_t rest = e;
      for (std::size_t d = shape.size(); d-- > 0;) {
        index[d] = rest % shape[d];
        rest /= shape[d];
      }
      const Extents at_source = place(index);
      std::int64_t offset = 0;
      for (std::size_t d = 0; d < at_source.size(); ++d)
        offset = offset * from.shape[d] + at_source[d];
      result.values.push_back(from.values[at(offset)]);
    }
    return result;
  }
};

TensorShape tensor_shape(const Extents& extents) {
  TensorShape shape;
  for (const std::int64_t e : extents) shape.push_back({e, false});
  return shape;
}

struct Both {
  Tensor tensor;
  Array array;
};

Both start(const Extents& extents) {
  Both both;
  both.array.shape = extents;
  both.array.values.resize(
      at(std::accumulate(extents.begin(), extents.end(), std::int64_t{1}, std::multiplies<>())));
  std::iota(both.array.values.begin(), both.array.values.end(), 1.0f);
  Leaf leaf;
  leaf.kind = Leaf::Kind::constant;
  leaf.values = ConstantTable<float>(both.array.values);
  leaf.dimensions = graph::in_order(tensor_shape(extents));
  both.tensor = graph::bare(leaf, tensor_shape(extents));
  return both;
}

void expect_same(const Both& both) {
  ASSERT_EQ(both.tensor.shape, tensor_shape(both.array.shape));
  const Tensor values = graph::evaluated(both.tensor);
  for (std::size_t e = 0; e < both.array.values.size(); ++e) {
    ASSERT_EQ(values.leaves[0].values[static_cast<std::int64_t>(e)], both.array.values[e]) << e;
  }
}

class Draws {
 public:
  explicit Draws(std::uint64_t key) : key_(key) {}
  std::int64_t below(std::int64_t end) {
    return static_cast<std::int64_t>(random_uniform(key_, next_++) * static_cast<float>(end));
  }

 private:
  std::uint64_t key_, next_ = 0;
};

void permute_at_random(Both& both, Draws& draw) {
  const auto rank = static_cast<std::int64_t>(both.array.shape.size());
  std::vector<int> order(at(rank));
  std::iota(order.begin(), order.end(), 0);
  for (std::int64_t i = rank - 1; i > 0; --i) std::swap(order[at(i)], order[at(draw.below(i + 1))]);
  Extents shape;
  for (const int d : order) shape.push_back(both.array.shape[at(d)]);
  both.array = Array::made(shape, both.array, [&](const Extents& index) {
    Extents source(index.size());
    for (std::size_t i = 0; i < order.size(); ++i) source[at(order[i])] = index[i];
    return source;
  });
  graph::permute(both.tensor, order);
}

void slice_at_random(Both& both, Draws& draw) {
  const std::int64_t dim = draw.below(static_cast<std::int64_t>(both.array.shape.size()));
  const std::int64_t extent = both.array.shape[at(dim)];
  const std::int64_t first = draw.below(extent), count = 1 + draw.below(extent - first);
  if (!graph::slice(both.tensor, static_cast<int>(dim), first, 1, count)) return;
  Extents shape = both.array.shape;
  shape[at(dim)] = count;
  both.array = Array::made(shape, both.array, [&](Extents index) {
    index[at(dim)] += first;
    return index;
  });
}

void gather_at_random(Both& both, Draws& draw) {
  const std::int64_t dim = draw.below(static_cast<std::int64_t>(both.array.shape.size()));
  std::vector<std::int64_t> places;
  for (int i = 0; i < 3; ++i) places.push_back(draw.below(both.array.shape[at(dim)]));
  if (!graph::gather(both.tensor, static_cast<int>(dim), places)) return;
  Extents shape = both.array.shape;
  shape[at(dim)] = 3;
  both.array = Array::made(shape, both.array, [&](Extents index) {
    index[at(dim)] = places[at(index[at(dim)])];
    return index;
  });
}

// Two dimensions as one, or one as two.
void reshape_at_random(Both& both, Draws& draw) {
  Extents shape = both.array.shape;
  const std::int64_t dim = draw.below(static_cast<std::int64_t>(shape.size()));
  if (draw.below(2) == 0 && at(dim) + 1 < shape.size()) {
    shape[at(dim)] *= shape[at(dim) + 1];
    shape.erase(shape.begin() + dim + 1);
  } else {
    const std::int64_t part = 2 + draw.below(3);
    if (shape[at(dim)] % part != 0) return;
    shape[at(dim)] /= part;
    shape.insert(shape.begin() + dim + 1, part);
  }
  if (graph::reshape(both.tensor, tensor_shape(shape))) both.array.shape = shape;
}

TEST(GraphTensor, ViewsAreWhatMovingWouldGive) {
  for (std::uint64_t key = 0; key < 300; ++key) {
    SCOPED_TRACE(key);
    Draws draw(key);
    Both both = start(key % 2 == 0 ? Extents{4, 6, 5} : Extents{12, 8});
    for (int step = 0; step < 8; ++step) {
      switch (draw.below(4)) {
        case 0:
          permute_at_random(both, draw);
          break;
        case 1:
          slice_at_random(both, draw);
          break;
        case 2:
          gather_at_random(both, draw);
          break;
        default:
          reshape_at_random(both, draw);
      }
      expect_same(both);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(GraphTensor, SamplesStayOneDimension) {
  Leaf leaf;
  const TensorShape shape{{1, true}, {6, false}, {4, false}};
  leaf.dimensions = graph::in_order(shape);
  Tensor tensor = graph::bare(leaf, shape);
  EXPECT_TRUE(graph::reshape(tensor, {{6, true}, {4, false}}));  // (6*N, 4)
  EXPECT_TRUE(graph::reshape(tensor, {{2, true}, {3, false}, {2, false}, {2, false}}));
  graph::permute(tensor, {1, 0, 2, 3});
  EXPECT_FALSE(graph::reshape(tensor, {{1, true}, {24, false}}));  // would mix samples
  EXPECT_FALSE(graph::slice(tensor, 1, 0, 1, 2));
  EXPECT_TRUE(graph::slice(tensor, 0, 1, 1, 2));
}

TEST(GraphTensor, ExpressionsBroadcast) {
  const Both row = start({1, 3}), column = start({2, 1});
  const TensorShape shape = tensor_shape({2, 3});
  const Tensor sum = graph::apply(
      "add",
      {row.tensor, graph::apply("mul", {column.tensor, graph::number(10)}, column.tensor.shape)},
      shape);
  const Tensor values = graph::evaluated(sum);
  const std::vector<float> wanted{11, 12, 13, 21, 22, 23};
  for (std::int64_t e = 0; e < 6; ++e) EXPECT_EQ(values.leaves[0].values[e], wanted[at(e)]);
}

}  // namespace graph_tensor_test
}  // namespace hetpipe
