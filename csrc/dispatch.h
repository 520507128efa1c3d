// How a kernel calls an operator of this library, so that the keys below its own see the call too.

#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <string>

namespace reduce_ops {

/// The operator reduce::<name>, to be kept in a static: the look-up takes longer than a call.
template <typename Signature>
c10::TypedOperatorHandle<Signature> find_operator(const std::string& name, const char* overload = "") {
  return c10::Dispatcher::singleton().findSchemaOrThrow(("reduce::" + name).c_str(), overload).typed<Signature>();
}

}  // namespace reduce_ops
