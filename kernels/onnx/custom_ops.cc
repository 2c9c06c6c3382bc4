// The custom operators of fused ONNX models, for ONNX Runtime: a library for
// SessionOptions.register_custom_ops_library.
//
// One operator a type: ONNX Runtime chooses by the types of the inputs.
#include <climits>

#include "custom_op.h"

namespace ascend_ops::ort {
namespace {

constexpr const char* kDomain = "ascend_ops";

// An attribute that is left out has its default, which the kernel's field holds already.
void ReadInteger(const OrtApi* api, const OrtKernelInfo* info, const char* name, int64_t* value) {
    int64_t read = 0;
    if (OrtStatus* status = KernelInfoGetAttribute_int64(api)(info, name, &read)) {
        ReleaseStatus(api)(status);
        return;
    }
    *value = read;
}

std::string ReadText(const OrtApi* api, const OrtKernelInfo* info, const char* name,
                     const char* fallback) {
    char text[32];
    size_t size = sizeof text;
    if (OrtStatus* status = KernelInfoGetAttribute_string(api)(info, name, text, &size)) {
        ReleaseStatus(api)(status);
        return size > sizeof text ? "longer than any that is known" : fallback;
    }
    return std::string(text);
}

OrtStatus* CreateKernel(const CustomOp* op, const OrtApi* api, const OrtKernelInfo* info,
                        void** out) {
    const Description& self = Self(op);
    AscendError error;
    auto kernel = std::make_unique<Kernel>();
    kernel->api = api;
    kernel->dtype = self.dtype;
    kernel->index_bytes = self.index_type == kInt64 ? 8 : 4;
    kernel->op = ascend_operator(self.operator_name, &error);
    if (kernel->op == nullptr) {
        return Invalid(api, std::string(self.name) + ": " + error.text);
    }
    const std::string activation = ReadText(api, info, "activation", "none");
    const char* const known[] = {"none", "relu", "sigmoid"};
    while (kernel->activation < 3 && activation != known[kernel->activation]) ++kernel->activation;
    if (kernel->activation == 3) {
        return Invalid(api, std::string(self.name) + ": activation is " + activation +
                                "; it must be none, relu or sigmoid");
    }
    int64_t transposed = 0;
    ReadInteger(api, info, "transB", &transposed);
    kernel->transpose_b = transposed != 0;
    int constant = 0;
    const OrtValue* weight = nullptr;
    if (OrtStatus* status =
            KernelInfoGetConstantInput_tensor(api)(info, 1, &constant, &weight)) {
        return status;
    }
    kernel->constant_weight = constant != 0 && weight != nullptr;
    *out = kernel.release();
    return nullptr;
}

void DestroyKernel(void* kernel) { delete static_cast<Kernel*>(kernel); }

int InputType(const CustomOp* op, size_t index) {
    const Description& self = Self(op);
    return index == 1 && self.index_type != 0 ? self.index_type : self.type;
}

Description Describe(const char* name, const char* operator_name, int32_t dtype, ElementType type,
                     ElementType index_type, OrtStatus* (*compute)(void*, OrtKernelContext*)) {
    Description op{};
    op.version = kApiVersion;
    op.name = name;
    op.operator_name = operator_name;
    op.dtype = dtype;
    op.type = type;
    op.index_type = index_type;
    op.GetName = [](const CustomOp* self) { return Self(self).name; };
    op.GetExecutionProviderType = [](const CustomOp*) -> const char* { return nullptr; };
    op.GetInputType = InputType;
    op.GetInputTypeCount = [](const CustomOp*) -> size_t { return 3; };
    op.GetOutputType = [](const CustomOp* self, size_t) -> int { return Self(self).type; };
    op.GetOutputTypeCount = [](const CustomOp*) -> size_t { return 1; };
    op.KernelDestroy = DestroyKernel;
    op.GetInputCharacteristic = [](const CustomOp*, size_t) { return 0; };
    op.GetOutputCharacteristic = [](const CustomOp*, size_t) { return 0; };
    op.GetInputMemoryType = [](const CustomOp*, size_t) { return 0; };
    op.GetVariadicInputMinArity = [](const CustomOp*) { return 1; };
    op.GetVariadicInputHomogeneity = [](const CustomOp*) { return 1; };
    op.GetVariadicOutputMinArity = [](const CustomOp*) { return 1; };
    op.GetVariadicOutputHomogeneity = [](const CustomOp*) { return 1; };
    op.CreateKernelV2 = CreateKernel;
    op.KernelComputeV2 = compute;
    op.GetStartVersion = [](const CustomOp*) { return 1; };
    op.GetEndVersion = [](const CustomOp*) { return INT_MAX; };
    return op;
}

std::vector<Description> DescribeAll() {
    struct Type {
        int32_t dtype;
        ElementType type;
    };
    const Type types[] = {
        {ASCEND_FLOAT, kFloat}, {ASCEND_HALF, kFloat16}, {ASCEND_BFLOAT16, kBfloat16}};
    std::vector<Description> all;
    for (const Type& type : types) {
        for (const ElementType index : {kInt32, kInt64}) {
            all.push_back(Describe("CustomFusedGatherAddRelu", "gather_add_relu", type.dtype,
                                   type.type, index, ComputeGather));
        }
        all.push_back(Describe("CustomFusedMatMul", "matmul_bias_act", type.dtype, type.type,
                               ElementType{}, ComputeMatMul));
    }
    return all;
}

// The domain lives as long as the process: sessions refer to it until they end.
OrtStatus* FindDomain(const OrtApi* api, OrtCustomOpDomain** domain) {
    static std::mutex mutex;
    static const std::vector<Description> operators = DescribeAll();
    static OrtCustomOpDomain* made = nullptr;
    const std::lock_guard<std::mutex> lock(mutex);
    if (made == nullptr) {
        OrtCustomOpDomain* fresh = nullptr;
        if (OrtStatus* status = CreateCustomOpDomain(api)(kDomain, &fresh)) return status;
        for (const Description& op : operators) {
            const CustomOp* table = &op;
            if (OrtStatus* status = CustomOpDomain_Add(api)(fresh, table)) return status;
        }
        made = fresh;
    }
    *domain = made;
    return nullptr;
}

}  // namespace

}  // namespace ascend_ops::ort

extern "C" __attribute__((visibility("default"))) OrtStatus* RegisterCustomOps(
    OrtSessionOptions* options, const ascend_ops::ort::ApiBase* base) {
    using namespace ascend_ops::ort;
    const OrtApi* api = base->GetApi(kApiVersion);
    if (api == nullptr) {
        const std::string text = std::string("ascend_ops: ONNX Runtime ") +
                                 base->GetVersionString() + " is too old; install 1.17 or later";
        // The first call of the table is the same in every version.
        return CreateStatus(base->GetApi(1))(kFail, text.c_str());
    }
    OrtCustomOpDomain* domain = nullptr;
    if (OrtStatus* status = FindDomain(api, &domain)) return status;
    return AddCustomOpDomain(api)(options, domain);
}
