// Tensors of one call, and errors: what the custom operators share.
#pragma once

#include <string>
#include <vector>

#include "ascend_abi.h"
#include "onnxruntime_abi.h"

namespace ascend_ops::ort {

// A tensor's shape and memory.
struct TensorView {
    std::vector<int64_t> shape;
    void* data = nullptr;

    int64_t Elements(size_t first_axis = 0) const {
        int64_t count = 1;
        for (size_t axis = first_axis; axis < shape.size(); ++axis) count *= shape[axis];
        return count;
    }
    std::string ShapeText() const {
        std::string text = "[";
        for (size_t axis = 0; axis < shape.size(); ++axis) {
            text += (axis == 0 ? "" : ", ") + std::to_string(shape[axis]);
        }
        return text + "]";
    }
};

inline OrtStatus* Invalid(const OrtApi* api, const std::string& text) {
    return CreateStatus(api)(kInvalidArgument, text.c_str());
}

inline OrtStatus* ReadView(const OrtApi* api, const OrtValue* value, TensorView* view) {
    OrtTensorTypeAndShapeInfo* info = nullptr;
    if (OrtStatus* status = GetTensorTypeAndShape(api)(value, &info)) return status;
    size_t rank = 0;
    OrtStatus* status = GetDimensionsCount(api)(info, &rank);
    view->shape.resize(rank);
    if (status == nullptr && rank > 0) {
        status = GetDimensions(api)(info, view->shape.data(), rank);
    }
    ReleaseTensorTypeAndShapeInfo(api)(info);
    if (status != nullptr) return status;
    // The call takes no const tensor; inputs are only read.
    return GetTensorMutableData(api)(const_cast<OrtValue*>(value), &view->data);
}

inline OrtStatus* ReadInput(const OrtApi* api, const OrtKernelContext* context, size_t index,
                            TensorView* view) {
    const OrtValue* value = nullptr;
    if (OrtStatus* status = KernelContext_GetInput(api)(context, index, &value)) return status;
    return ReadView(api, value, view);
}

inline OrtStatus* MakeOutput(const OrtApi* api, OrtKernelContext* context,
                             std::vector<int64_t> shape, TensorView* view) {
    OrtValue* value = nullptr;
    view->shape = std::move(shape);
    if (OrtStatus* status = KernelContext_GetOutput(api)(context, 0, view->shape.data(),
                                                         view->shape.size(), &value)) {
        return status;
    }
    return GetTensorMutableData(api)(value, &view->data);
}

inline uint64_t ElementBytes(int32_t dtype) { return dtype == ASCEND_FLOAT ? 4 : 2; }

// A tensor of the operator's type as the operators take it.
inline AscendTensor Operand(const TensorView& tensor, int32_t dtype) {
    return {tensor.data, static_cast<uint64_t>(tensor.Elements()) * ElementBytes(dtype)};
}

}  // namespace ascend_ops::ort
