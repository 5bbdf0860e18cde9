// SPDX-License-Identifier: Apache-2.0
// A borrowed callable: two pointers, no allocation. It must not outlive what it was made from.
#ifndef HEADWISE_RUNTIME_FUNCTION_REF_H_
#define HEADWISE_RUNTIME_FUNCTION_REF_H_

#include <memory>
#include <type_traits>
#include <utility>

namespace headwise {

template <class Signature>
class FunctionRef;

template <class Result, class... Arguments>
class FunctionRef<Result(Arguments...)> {
 public:
  // From any object that can be called (a lambda, a std::function); implicit, as an argument is passed.
  template <class Callable>
  requires(!std::is_same_v<std::remove_cvref_t<Callable>, FunctionRef> &&
           std::is_object_v<std::remove_reference_t<Callable>> &&
           std::is_invocable_r_v<Result, Callable&, Arguments...>)
      FunctionRef(Callable&& callable)  // NOLINT(google-explicit-constructor)
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(callable)))),
        call_([](void* object, Arguments... arguments) -> Result {
          auto& target = *static_cast<std::remove_reference_t<Callable>*>(object);
          return static_cast<Result>(target(std::forward<Arguments>(arguments)...));
        }) {}

  Result operator()(Arguments... arguments) const { return call_(object_, std::forward<Arguments>(arguments)...); }

 private:
  void* object_;
  Result (*call_)(void*, Arguments...);
};

}  // namespace headwise

#endif  // HEADWISE_RUNTIME_FUNCTION_REF_H_
