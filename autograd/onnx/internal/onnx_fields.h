#pragma once

namespace tapegrad {

// The fields of ONNX's messages that are written, by their numbers in onnx.proto3
// (github.com/onnx/onnx): the numbers are the format.

struct OnnxModelField {
  enum : int { ir_version = 1, producer_name = 2, producer_version = 3, graph = 7, opset = 8 };
};
struct OnnxOpsetField {
  enum : int { domain = 1, version = 2 };
};
struct OnnxGraphField {
  enum : int { node = 1, name = 2, weight = 5, input = 11, output = 12 };
};
struct OnnxNodeField {
  enum : int { input = 1, output = 2, name = 3, op = 4, attribute = 5 };
};
struct OnnxAttributeField {
  enum : int { name = 1, real = 2, whole = 3, wholes = 8, type = 20 };
};
// AttributeProto.AttributeType.
struct OnnxAttributeType {
  enum : int { real = 1, whole = 2, wholes = 7 };
};
struct OnnxTensorField {
  enum : int { size = 1, type = 2, name = 8, bytes = 9, outside = 13, place = 14 };
};
inline constexpr int kOnnxOutside = 1;  // TensorProto.DataLocation
struct OnnxPairField {
  enum : int { key = 1, value = 2 };
};
struct OnnxValueField {
  enum : int { name = 1, type = 2 };
};
struct OnnxTypeField {
  enum : int { tensor = 1 };
};
struct OnnxTensorTypeField {
  enum : int { element = 1, shape = 2 };
};
struct OnnxShapeField {
  enum : int { size = 1 };
};
struct OnnxSizeField {
  enum : int { value = 1, name = 2 };
};

}  // namespace tapegrad
