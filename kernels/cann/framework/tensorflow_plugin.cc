// Tells the graph engine which operator serves which TensorFlow op; attributes map by name.
#include "register/register.h"

namespace domi {

REGISTER_CUSTOM_OP("AscendSigmoid")
    .FrameworkType(TENSORFLOW)
    .OriginOpType("AscendSigmoid")
    .ParseParamsByOperatorFn(AutoMappingByOpFn);

REGISTER_CUSTOM_OP("AscendSigmoidGrad")
    .FrameworkType(TENSORFLOW)
    .OriginOpType("AscendSigmoidGrad")
    .ParseParamsByOperatorFn(AutoMappingByOpFn);

REGISTER_CUSTOM_OP("AscendEmbeddingDenseGrad")
    .FrameworkType(TENSORFLOW)
    .OriginOpType("AscendEmbeddingDenseGrad")
    .ParseParamsByOperatorFn(AutoMappingByOpFn);

REGISTER_CUSTOM_OP("AscendGatherAddRelu")
    .FrameworkType(TENSORFLOW)
    .OriginOpType("AscendGatherAddRelu")
    .ParseParamsByOperatorFn(AutoMappingByOpFn);

REGISTER_CUSTOM_OP("AscendMatmulBiasAct")
    .FrameworkType(TENSORFLOW)
    .OriginOpType("CustomFusedMatMul")
    .ParseParamsByOperatorFn(AutoMappingByOpFn);

REGISTER_CUSTOM_OP("AscendConv2dBiasRelu")
    .FrameworkType(TENSORFLOW)
    .OriginOpType("CustomFusedConv")
    .ParseParamsByOperatorFn(AutoMappingByOpFn);

}  // namespace domi
