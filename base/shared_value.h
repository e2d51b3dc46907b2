// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <utility>

namespace hetpipe {

// A value that its copies share until one of them changes: copying it costs nothing.
template <class T>
class SharedValue {
 public:
  SharedValue() : value_(std::make_shared<T>()) {}
  SharedValue(T value) : value_(std::make_shared<T>(std::move(value))) {}

  const T& operator*() const { return *value_; }
  const T* operator->() const { return value_.get(); }
  operator const T&() const { return *value_; }

  // To be changed before this is copied again.
  T& change() {
    if (value_.use_count() > 1) value_ = std::make_shared<T>(*value_);
    return *value_;
  }

 private:
  std::shared_ptr<T> value_;
};

}  // namespace hetpipe
