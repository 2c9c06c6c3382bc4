// The custom operators of fused ONNX models, for ONNX Runtime: a library for
// SessionOptions.register_custom_ops_library.
//
// One operator a type: ONNX Runtime chooses by the types of the inputs. A kernel holds nothing but
// its operator and attributes, so that sessions may run it from many threads at once.
#include <climits>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>

#include "tensor_view.h"

namespace ascend_ops::ort {
namespace {

constexpr const char* kDomain = "ascend_ops";
// Below this many elements a second thread costs more to start than it saves.
constexpr int64_t kElementsOfASecondThread = 65536;

// That of aclrtMalloc.
constexpr std::align_val_t kWorkspaceAlignment{512};

struct FreeAligned {
    void operator()(uint8_t* memory) const { ::operator delete[](memory, kWorkspaceAlignment); }
};

struct Run {
    const AscendOperator* op;
    const AscendProblem* problem;
    const AscendPlan* plan;
    const AscendTensor* tensors;
    std::mutex mutex;
    int code = ASCEND_OK;
    AscendError error;
};

// Runs one core; the first failure is the call's.
void RunCore(void* user, size_t core) {
    Run& run = *static_cast<Run*>(user);
    AscendError error;
    const auto begin = static_cast<int32_t>(core);
    const int code = run.op->run(run.problem, run.plan, run.tensors, begin, begin + 1, &error);
    if (code == ASCEND_OK) return;
    const std::lock_guard<std::mutex> lock(run.mutex);
    if (run.code == ASCEND_OK) run.error = error;
    run.code = code;
}

// What each custom operator adds to the table of callbacks.
struct Description : CustomOp {
    const char* name;
    const char* operator_name;
    int32_t dtype;
    ElementType type;
    ElementType index_type;  // of CustomFusedGatherAddRelu's second input
};

const Description& Self(const CustomOp* op) { return *static_cast<const Description*>(op); }

struct Kernel {
    const OrtApi* api = nullptr;
    const AscendOperator* op = nullptr;
    int32_t dtype = ASCEND_FLOAT;
    int64_t index_bytes = 8;
    int64_t activation = 0;
    bool transpose_b = false;
};

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
        return fallback;
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
    *out = kernel.release();
    return nullptr;
}

void DestroyKernel(void* kernel) { delete static_cast<Kernel*>(kernel); }

template <typename Index>
OrtStatus* CheckIndices(const OrtApi* api, const TensorView& indices, int64_t rows) {
    const auto* values = static_cast<const Index*>(indices.data);
    const int64_t count = indices.Elements();
    for (int64_t i = 0; i < count; ++i) {
        if (values[i] < -rows || values[i] >= rows) {
            return Invalid(api, "CustomFusedGatherAddRelu: index " + std::to_string(values[i]) +
                                    " at position " + std::to_string(i) +
                                    " is outside the table of " + std::to_string(rows) + " rows");
        }
    }
    return nullptr;
}

OrtStatus* ComputeGather(void* state, OrtKernelContext* context) {
    const Kernel& kernel = *static_cast<Kernel*>(state);
    const OrtApi* api = kernel.api;
    TensorView table, indices, addend, y;
    if (OrtStatus* status = ReadInput(api, context, 0, &table)) return status;
    if (OrtStatus* status = ReadInput(api, context, 1, &indices)) return status;
    if (OrtStatus* status = ReadInput(api, context, 2, &addend)) return status;
    if (table.shape.empty()) {
        return Invalid(api, "CustomFusedGatherAddRelu: the table is a scalar and has no rows");
    }
    const std::vector<int64_t> row(table.shape.begin() + 1, table.shape.end());
    std::vector<int64_t> shape = indices.shape;
    shape.insert(shape.end(), row.begin(), row.end());
    if (addend.shape != row && addend.shape != shape) {
        return Invalid(api, "CustomFusedGatherAddRelu: the addend has shape " + addend.ShapeText() +
                                "; it must have that of a row of the table " + table.ShapeText() +
                                ", or of the result");
    }
    const int64_t rows = table.shape[0];
    if (OrtStatus* status = kernel.index_bytes == 8 ? CheckIndices<int64_t>(api, indices, rows)
                                                    : CheckIndices<int32_t>(api, indices, rows)) {
        return status;
    }
    if (OrtStatus* status = MakeOutput(api, context, shape, &y)) return status;
    const uint64_t bytes = ElementBytes(kernel.dtype);
    const auto size = [bytes](const TensorView& tensor) {
        return AscendTensor{tensor.data, static_cast<uint64_t>(tensor.Elements()) * bytes};
    };
    const AscendProblem problem = {kernel.dtype,
                                   {indices.Elements(), rows, table.Elements(1),
                                    addend.shape == row ? 1 : 0, kernel.index_bytes}};
    const auto index_bytes = static_cast<uint64_t>(indices.Elements() * kernel.index_bytes);
    return RunOperator(api, context, kernel.op, problem,
                       {size(table), {indices.data, index_bytes}, size(addend), size(y)},
                       y.Elements());
}

OrtStatus* ComputeMatMul(void* state, OrtKernelContext* context) {
    const Kernel& kernel = *static_cast<Kernel*>(state);
    const OrtApi* api = kernel.api;
    TensorView x, weight, bias, y;
    if (OrtStatus* status = ReadInput(api, context, 0, &x)) return status;
    if (OrtStatus* status = ReadInput(api, context, 1, &weight)) return status;
    if (OrtStatus* status = ReadInput(api, context, 2, &bias)) return status;
    const bool matrix = x.shape.size() >= 2 && weight.shape.size() == 2;
    const size_t k_axis = kernel.transpose_b ? 1 : 0;
    if (!matrix || x.shape.back() != weight.shape[k_axis] ||
        bias.shape != std::vector<int64_t>{weight.shape[1 - k_axis]}) {
        return Invalid(api, "CustomFusedMatMul: x has shape " + x.ShapeText() + ", the weight " +
                                weight.ShapeText() + (kernel.transpose_b ? " (transposed)" : "") +
                                " and the bias " + bias.ShapeText() +
                                "; they must be [..., k], [k, n] and [n]");
    }
    const int64_t k = x.shape.back();
    const int64_t n = bias.shape[0];
    std::vector<int64_t> shape(x.shape.begin(), x.shape.end() - 1);
    int64_t m = 1;
    for (const int64_t dimension : shape) m *= dimension;
    shape.push_back(n);
    if (OrtStatus* status = MakeOutput(api, context, shape, &y)) return status;
    const uint64_t bytes = ElementBytes(kernel.dtype);
    const auto size = [bytes](const TensorView& tensor) {
        return AscendTensor{tensor.data, static_cast<uint64_t>(tensor.Elements()) * bytes};
    };
    const AscendProblem problem = {
        kernel.dtype, {m, n, k, 0, kernel.transpose_b ? 1 : 0, kernel.activation}};
    // A product is worth a second thread by its multiplications, a sixteenth as many.
    return RunOperator(api, context, kernel.op, problem, {size(x), size(weight), size(bias), size(y)},
                       m * n * (k / 16 + 1));
}

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

OrtStatus* RunOperator(const OrtApi* api, const OrtKernelContext* context, const AscendOperator* op,
                       const AscendProblem& problem, std::vector<AscendTensor> tensors,
                       int64_t elements) {
    AscendPlan plan;
    AscendError error;
    if (op->plan(&problem, &plan, &error) != ASCEND_OK) return Invalid(api, error.text);
    if (plan.core_count == 0) return nullptr;
    // Not cleared: the kernel writes what it reads.
    const std::unique_ptr<uint8_t[], FreeAligned> workspace(
        new (kWorkspaceAlignment) uint8_t[plan.workspace_bytes]);
    tensors.push_back({workspace.get(), plan.workspace_bytes});
    Run run{op, &problem, &plan, tensors.data(), {}, ASCEND_OK, {}};
    const auto cores = static_cast<size_t>(plan.core_count);
    if (elements < kElementsOfASecondThread || cores == 1) {
        run.code = op->run(&problem, &plan, tensors.data(), 0, plan.core_count, &run.error);
    } else if (OrtStatus* status =
                   KernelContext_ParallelFor(api)(context, RunCore, cores, 0, &run)) {
        return status;
    }
    return run.code == ASCEND_OK ? nullptr : CreateStatus(api)(kFail, run.error.text);
}

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
