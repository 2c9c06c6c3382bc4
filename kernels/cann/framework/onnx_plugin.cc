// Tells ATC which operator serves which fused ONNX node: domain::version::type, as it looks them
// up. The nodes are those of ascend_ops.onnx_fusion; without this ATC stops with E16002.
#include "register/register.h"

namespace domi {

REGISTER_CUSTOM_OP("AscendGatherAddRelu")
    .FrameworkType(ONNX)
    .OriginOpType("ascend_ops::1::CustomFusedGatherAddRelu")
    .ParseParamsByOperatorFn(AutoMappingByOpFn);

}  // namespace domi
