// Tells ATC which operator serves which fused ONNX node: domain::version::type, as it looks them
// up. The nodes are those of ascend_ops.onnx_fusion; without this ATC stops with E16002.
#include "graph/operator.h"
#include "nlohmann/json.hpp"
#include "register/register.h"

namespace domi {

REGISTER_CUSTOM_OP("AscendGatherAddRelu")
    .FrameworkType(ONNX)
    .OriginOpType("ascend_ops::1::CustomFusedGatherAddRelu")
    .ParseParamsByOperatorFn(AutoMappingByOpFn);

// ONNX's repeated attributes arrive as one text of JSON, in the attribute "attribute".
static Status ParseFusedMatMul(const ge::Operator& op_src, ge::Operator& op_dest)
{
    std::string activation = "none";
    bool transposed = false;
    ge::AscendString text;
    if (op_src.GetAttr("attribute", text) == ge::GRAPH_SUCCESS) {
        const auto parsed = nlohmann::json::parse(text.GetString(), nullptr, false);
        if (parsed.is_discarded() || !parsed.contains("attribute")) return FAILED;
        for (const auto& attribute : parsed["attribute"]) {
            const std::string name = attribute.value("name", "");
            if (name == "activation") activation = attribute.value("s", "none");
            if (name == "transB") transposed = attribute.value("i", int64_t(0)) != 0;
        }
    }
    op_dest.SetAttr("transpose_a", false);
    op_dest.SetAttr("transpose_b", transposed);
    op_dest.SetAttr("activation", activation.c_str());
    return SUCCESS;
}

REGISTER_CUSTOM_OP("AscendMatmulBiasAct")
    .FrameworkType(ONNX)
    .OriginOpType("ascend_ops::1::CustomFusedMatMul")
    .ParseParamsByOperatorFn(ParseFusedMatMul);

}  // namespace domi
