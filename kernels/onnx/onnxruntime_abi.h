// The part of ONNX Runtime's C interface that custom operators need, declared by hand.
//
// Its wheel has no headers, and the interface is stable by promise: calls are only ever appended
// to the table OrtApi, and callbacks to OrtCustomOp. So a call is a position in the table, and the
// positions below hold for every ONNX Runtime from 1.17 on. The tests compare positions and layout
// with the real header where there is one.
#pragma once

#include <stddef.h>
#include <stdint.h>

struct OrtStatus;  // nullptr is success
struct OrtApi;     // a table of function pointers
struct OrtValue;
struct OrtTensorTypeAndShapeInfo;
struct OrtSessionOptions;
struct OrtCustomOpDomain;
struct OrtKernelInfo;
struct OrtKernelContext;
struct OrtShapeInferContext;

namespace ascend_ops::ort {

constexpr uint32_t kApiVersion = 17;  // of ONNX Runtime 1.17: the first with ParallelFor

struct ApiBase {
    const OrtApi* (*GetApi)(uint32_t version);
    const char* (*GetVersionString)();
};

// ONNXTensorElementDataType
enum ElementType : int { kFloat = 1, kInt32 = 6, kInt64 = 7, kFloat16 = 10, kBfloat16 = 16 };
// OrtErrorCode
enum ErrorCode : int { kFail = 1, kInvalidArgument = 2 };

// X(name, position in OrtApi, result, arguments)
#define ASCEND_ORT_CALLS(X)                                                                     \
    X(CreateStatus, 0, OrtStatus*, (int code, const char* message))                             \
    X(CreateCustomOpDomain, 26, OrtStatus*, (const char* domain, OrtCustomOpDomain** out))      \
    X(CustomOpDomain_Add, 27, OrtStatus*, (OrtCustomOpDomain * domain, const void* op))         \
    X(AddCustomOpDomain, 28, OrtStatus*, (OrtSessionOptions * options, OrtCustomOpDomain * d))  \
    X(GetTensorMutableData, 51, OrtStatus*, (OrtValue * value, void** out))                     \
    X(GetDimensionsCount, 61, OrtStatus*, (const OrtTensorTypeAndShapeInfo* info, size_t* out)) \
    X(GetDimensions, 62, OrtStatus*,                                                            \
      (const OrtTensorTypeAndShapeInfo* info, int64_t* dims, size_t count))                     \
    X(GetTensorTypeAndShape, 65, OrtStatus*,                                                    \
      (const OrtValue* value, OrtTensorTypeAndShapeInfo** out))                                 \
    X(KernelInfoGetAttribute_int64, 86, OrtStatus*,                                             \
      (const OrtKernelInfo* info, const char* name, int64_t* out))                              \
    X(KernelInfoGetAttribute_string, 87, OrtStatus*,                                            \
      (const OrtKernelInfo* info, const char* name, char* out, size_t* size))                   \
    X(KernelContext_GetInput, 90, OrtStatus*,                                                   \
      (const OrtKernelContext* context, size_t index, const OrtValue** out))                    \
    X(KernelContext_GetOutput, 91, OrtStatus*,                                                  \
      (OrtKernelContext * context, size_t index, const int64_t* dims, size_t count,             \
       OrtValue** out))                                                                         \
    X(KernelInfoGetConstantInput_tensor, 249, OrtStatus*,                                       \
      (const OrtKernelInfo* info, size_t index, int* is_constant, const OrtValue** out))        \
    X(ReleaseStatus, 93, void, (OrtStatus * status))                                            \
    X(ReleaseTensorTypeAndShapeInfo, 99, void, (OrtTensorTypeAndShapeInfo * info))              \
    X(KernelContext_ParallelFor, 274, OrtStatus*,                                               \
      (const OrtKernelContext* context, void (*function)(void*, size_t), size_t total,          \
       size_t batches, void* user))

// Each call as a function whose first argument is the table.
#define ASCEND_ORT_DECLARE(name, position, result, arguments)                         \
    inline auto name(const OrtApi* api) {                                             \
        using Function = result(*) arguments;                                         \
        return reinterpret_cast<Function>(reinterpret_cast<void* const*>(api)[position]); \
    }
ASCEND_ORT_CALLS(ASCEND_ORT_DECLARE)
#undef ASCEND_ORT_DECLARE

// OrtCustomOp as of version 17.
struct CustomOp {
    uint32_t version;
    void* (*CreateKernel)(const CustomOp*, const OrtApi*, const OrtKernelInfo*);
    const char* (*GetName)(const CustomOp*);
    const char* (*GetExecutionProviderType)(const CustomOp*);
    int (*GetInputType)(const CustomOp*, size_t index);
    size_t (*GetInputTypeCount)(const CustomOp*);
    int (*GetOutputType)(const CustomOp*, size_t index);
    size_t (*GetOutputTypeCount)(const CustomOp*);
    void (*KernelCompute)(void* kernel, OrtKernelContext*);
    void (*KernelDestroy)(void* kernel);
    int (*GetInputCharacteristic)(const CustomOp*, size_t index);   // 0: required
    int (*GetOutputCharacteristic)(const CustomOp*, size_t index);
    int (*GetInputMemoryType)(const CustomOp*, size_t index);       // 0: the provider's own
    int (*GetVariadicInputMinArity)(const CustomOp*);
    int (*GetVariadicInputHomogeneity)(const CustomOp*);
    int (*GetVariadicOutputMinArity)(const CustomOp*);
    int (*GetVariadicOutputHomogeneity)(const CustomOp*);
    OrtStatus* (*CreateKernelV2)(const CustomOp*, const OrtApi*, const OrtKernelInfo*, void** out);
    OrtStatus* (*KernelComputeV2)(void* kernel, OrtKernelContext*);
    OrtStatus* (*InferOutputShapeFn)(const CustomOp*, OrtShapeInferContext*);
    int (*GetStartVersion)(const CustomOp*);
    int (*GetEndVersion)(const CustomOp*);
};

}  // namespace ascend_ops::ort
