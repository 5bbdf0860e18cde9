// SPDX-License-Identifier: Apache-2.0
#include "headwise/layers/state.h"

#include <cstring>
#include <map>
#include <utility>

#include "headwise/tensor/errors.h"
#include "headwise/tensor/shape_check.h"
#include "headwise/tensor/visibility.h"

namespace headwise {
namespace {

bool matches(std::string_view name, std::string_view pattern) {
  if (pattern.starts_with('*')) return name.ends_with(pattern.substr(1));
  if (pattern.ends_with('*')) return name.starts_with(pattern.substr(0, pattern.size() - 1));
  return name == pattern;
}

bool is_ignored(std::string_view name, const LoadRules& rules) {
  for (const std::string& pattern : rules.ignored) {
    if (matches(name, pattern)) return true;
  }
  return false;
}

// Which tensor goes into which parameter, and every name that finds no partner.
struct Pairing {
  std::vector<const NamedTensor*> sources;  // beside the parameters
  std::string missing, unexpected, repeated;

  std::string complaint() const {
    std::string text;
    for (const auto& [what, names] : {std::pair{"missing ", &missing}, std::pair{"unexpected ", &unexpected},
                                      std::pair{"given twice: ", &repeated}}) {
      if (!names->empty()) text += (text.empty() ? "" : "; ") + std::string(what) + *names;
    }
    return text;
  }
};

void append_name(std::string& list, std::string_view name) {
  if (!list.empty()) list += ", ";
  list += name;
}

template <class T>
Pairing pair_by_name(std::span<const Parameter<T>> parameters, std::span<const NamedTensor> tensors,
                     const LoadRules& rules) {
  Pairing pairing;
  std::map<std::string_view, std::size_t> index;
  for (std::size_t i = 0; i < parameters.size(); ++i) index[parameters[i].name] = i;
  pairing.sources.assign(parameters.size(), nullptr);
  for (const NamedTensor& tensor : tensors) {
    std::string_view name = tensor.name;
    if (!rules.optional_prefix.empty() && name.starts_with(rules.optional_prefix)) {
      name.remove_prefix(rules.optional_prefix.size());
    }
    const auto found = index.find(name);
    if (found == index.end()) {
      if (!is_ignored(name, rules)) append_name(pairing.unexpected, tensor.name);
    } else if (pairing.sources[found->second] != nullptr) {
      append_name(pairing.repeated, name);
    } else {
      pairing.sources[found->second] = &tensor;
    }
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (pairing.sources[i] == nullptr) append_name(pairing.missing, parameters[i].name);
  }
  return pairing;
}

template <class T>
void check_fits(std::string_view who, const Parameter<T>& parameter, const NamedTensor& tensor) {
  const auto axis = [&](std::size_t i) { return Axis{parameter.axes[i], parameter.shape[i]}; };
  if (parameter.shape.size() == 1) {
    check_shape(who, tensor.name, tensor.shape, {axis(0)});
  } else {
    check_shape(who, tensor.name, tensor.shape, {axis(0), axis(1)});
  }
  const bool widens = tensor.dtype == DType::kFloat32;
  if (tensor.dtype == kDTypeOf<T> || widens) return;
  throw DTypeError(std::string(who) + ": " + tensor.name + " is " + std::string(dtype_name(tensor.dtype)) +
                   ", the parameters are " + std::string(dtype_name(kDTypeOf<T>)) + "; convert it first");
}

template <class T>
void copy_values(const NamedTensor& tensor, std::span<T> values) {
  if (tensor.dtype == kDTypeOf<T>) {
    std::memcpy(values.data(), tensor.data, values.size_bytes());
    return;
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    float narrow = 0;  // the bytes may be unaligned
    std::memcpy(&narrow, tensor.data + i * sizeof(float), sizeof(float));
    values[i] = static_cast<T>(narrow);
  }
}

}  // namespace

const std::vector<std::string>& stored_mask_names() {
  static const std::vector<std::string> kNames{"mask", "*.mask", "*attn.bias", "*masked_bias"};
  return kNames;
}

template <class T>
void load_parameters(std::string_view who, std::span<const Parameter<T>> parameters,
                     std::span<const NamedTensor> tensors, const LoadRules& rules) {
  const Pairing pairing = pair_by_name(parameters, tensors, rules);
  const std::string complaint = pairing.complaint();
  if (!complaint.empty()) throw ArgumentError(std::string(who) + ": " + complaint);
  for (std::size_t i = 0; i < parameters.size(); ++i) check_fits(who, parameters[i], *pairing.sources[i]);
  for (std::size_t i = 0; i < parameters.size(); ++i) copy_values(*pairing.sources[i], parameters[i].values());
}

template <class T>
std::vector<NamedTensor> named_tensors(std::span<const Parameter<T>> parameters) {
  std::vector<NamedTensor> tensors;
  for (const Parameter<T>& parameter : parameters) {
    tensors.push_back(
        {parameter.name, kDTypeOf<T>, parameter.shape, reinterpret_cast<const std::byte*>(parameter.value)});
  }
  return tensors;
}

template HEADWISE_EXPORT void load_parameters(std::string_view, std::span<const Parameter<float>>,
                                              std::span<const NamedTensor>, const LoadRules&);
template HEADWISE_EXPORT void load_parameters(std::string_view, std::span<const Parameter<double>>,
                                              std::span<const NamedTensor>, const LoadRules&);
template HEADWISE_EXPORT std::vector<NamedTensor> named_tensors(std::span<const Parameter<float>>);
template HEADWISE_EXPORT std::vector<NamedTensor> named_tensors(std::span<const Parameter<double>>);

}  // namespace headwise
