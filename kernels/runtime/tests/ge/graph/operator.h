// Declarations of the part of CANN's graph/operator.h that the framework plug-ins use; attributes
// are kept in maps that the tests fill and read.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace ge {

using graphStatus = uint32_t;
static const graphStatus GRAPH_SUCCESS = 0;
static const graphStatus GRAPH_FAILED = 0xFFFFFFFF;

class AscendString {
public:
    AscendString() = default;
    AscendString(const char* name) : text_(name) {}
    const char* GetString() const { return text_.c_str(); }

private:
    std::string text_;
};

class Operator {
public:
    graphStatus GetAttr(const char* name, AscendString& attr_value) const
    {
        const auto found = texts.find(name);
        if (found == texts.end()) return GRAPH_FAILED;
        attr_value = AscendString(found->second.c_str());
        return GRAPH_SUCCESS;
    }
    Operator& SetAttr(const char* name, const char* attr_value)
    {
        texts[name] = attr_value;
        return *this;
    }
    Operator& SetAttr(const char* name, int64_t attr_value)
    {
        integers[name] = attr_value;
        return *this;
    }
    Operator& SetAttr(const char* name, bool attr_value)
    {
        booleans[name] = attr_value;
        return *this;
    }

    std::map<std::string, std::string> texts;
    std::map<std::string, int64_t> integers;
    std::map<std::string, bool> booleans;
};

}  // namespace ge
