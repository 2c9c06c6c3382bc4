// Declarations of the part of CANN's register/register.h that the framework plug-ins use, for
// machines without CANN. Names and signatures are those of the public header (CANN 9); what is
// registered is kept in a list that the tests read.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "graph/operator.h"

namespace domi {

using Status = uint32_t;
static const Status SUCCESS = 0;
static const Status FAILED = 0xFFFFFFFF;

enum FrameworkType { CAFFE = 0, MINDSPORE = 1, TENSORFLOW = 3, ANDROID_NN, ONNX, FRAMEWORK_RESERVED };

using ParseParamByOpFunc = std::function<Status(const ge::Operator&, ge::Operator&)>;

// Copies the attributes that have the same name.
Status AutoMappingByOpFn(const ge::Operator& op_src, ge::Operator& op);

class OpRegistrationData {
public:
    OpRegistrationData(const char* om_optype) : om_optype_(om_optype) {}
    OpRegistrationData& FrameworkType(const domi::FrameworkType& fmk_type)
    {
        framework_ = fmk_type;
        return *this;
    }
    OpRegistrationData& OriginOpType(const char* ori_op_type)
    {
        origins_.emplace_back(ori_op_type);
        return *this;
    }
    OpRegistrationData& OriginOpType(const std::vector<ge::AscendString>& ori_op_type_list)
    {
        for (const ge::AscendString& type : ori_op_type_list) origins_.emplace_back(type.GetString());
        return *this;
    }
    OpRegistrationData& ParseParamsByOperatorFn(const ParseParamByOpFunc& parse_param_by_op_fn)
    {
        parse_ = parse_param_by_op_fn;
        return *this;
    }

    std::string om_optype_;
    domi::FrameworkType framework_ = FRAMEWORK_RESERVED;
    std::vector<std::string> origins_;
    ParseParamByOpFunc parse_;
};

inline std::vector<OpRegistrationData>& Registered()
{
    static std::vector<OpRegistrationData> all;
    return all;
}

class OpReceiver {
public:
    OpReceiver(OpRegistrationData& reg_data) { Registered().push_back(reg_data); }
};

}  // namespace domi

#define REGISTER_CUSTOM_OP(name) REGISTER_CUSTOM_OP_UNIQ_HELPER(__COUNTER__, (name))
#define REGISTER_CUSTOM_OP_UNIQ_HELPER(ctr, name) REGISTER_CUSTOM_OP_UNIQ(ctr, (name))
#define REGISTER_CUSTOM_OP_UNIQ(ctr, name) \
    static OpReceiver register_op##ctr __attribute__((unused)) = OpRegistrationData(name)
