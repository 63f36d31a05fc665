-- Environment of scripts. The chunk gets the functions of the server. It returns the frozen
-- environment, the function that runs a script, and the table with the function for commands.
local native = ...

local error, type, tostring, rawget, next = error, type, tostring, rawget, next
local pcall, xpcall, setmetatable, rawset = pcall, xpcall, setmetatable, rawset
local info, freeze, is_frozen, lua_find = debug.info, table.freeze, table.isfrozen, string.find
local select, unpack, concat, gcinfo = select, unpack, table.concat, gcinfo
local READONLY = "Attempt to modify a readonly table"

-- Functions of the server get their arguments in a table, and return true, a result or a table of
-- results, and their number; or false and an error, which is raised in the calling script.
local function wrapped(f)
    return function(...)
        local is_ok, result, count = f({ ... }, select("#", ...))
        if not is_ok then
            error(result, 2)
        elseif count then
            return unpack(result, 1, count)
        end
        return result
    end
end

local function library(functions, values)
    local built = values or {}
    for name, f in next, functions do
        built[name] = wrapped(f)
    end
    return built
end

local function copy(from, names)
    local built = {}
    for _, name in next, names do
        built[name] = from[name]
    end
    return built
end

-- redis: errors are tables, as in Redis 7.
local slot = {}

local function call(...)
    local is_ok, value = slot.command({ ... }, select("#", ...))
    if is_ok then
        return value
    end
    error({ err = value }, 0)
end

local function protected_call(...)
    local is_ok, value = slot.command({ ... }, select("#", ...))
    if is_ok then
        return value
    end
    return { err = value }
end

local redis = native.constants
redis.call = call
redis.pcall = protected_call
for name, f in next, native.redis do
    redis[name] = function(...)
        local is_ok, value = f({ ... }, select("#", ...))
        if is_ok then
            return value
        end
        error({ err = value }, 0)
    end
end
redis.acl_check_cmd = function(...)
    local is_ok, value = slot.check({ ... }, select("#", ...))
    if is_ok then
        return value
    end
    error({ err = value }, 0)
end
redis.error_reply = function(...)
    local text = ...
    if select("#", ...) ~= 1 or type(text) ~= "string" then
        return { err = "ERR wrong number or type of arguments" }
    end
    if text:sub(1, 1) == "-" then
        return { err = text:sub(2) }
    elseif lua_find(text, " ", 1, true) then
        return { err = text }
    end
    return { err = "ERR " .. text }
end
redis.status_reply = function(...)
    local text = ...
    if select("#", ...) ~= 1 or type(text) ~= "string" then
        return { err = "ERR wrong number or type of arguments" }
    end
    return { ok = text }
end
redis.replicate_commands = function()
    return true
end
redis.breakpoint = function()
    return false
end
redis.debug = function() end

-- An error object with the field err is its text, as in Redis.
local function unwrapped(is_ok, e, ...)
    if not is_ok and type(e) == "table" and rawget(e, "err") ~= nil then
        return false, rawget(e, "err")
    end
    return is_ok, e, ...
end

-- A long plain search takes linear time.
local plain_find = wrapped(native.find)

local function find(s, pattern, init, plain)
    if type(pattern) == "string" and #pattern > 32 then
        if plain or not lua_find(pattern, "[%^%$%*%+%?%.%(%[%%%-]") then
            return plain_find(s, pattern, init)
        end
    end
    return lua_find(s, pattern, init, plain)
end

local function compiled(text, name)
    local f, message = native.compile(text, name)
    if f then
        return f
    end
    return nil, message
end

local function load(chunk, name)
    if type(chunk) == "string" then
        return compiled(chunk, name)
    end
    local parts = {}
    while true do
        local part = chunk()
        if part == nil or part == "" then
            break
        end
        parts[#parts + 1] = part
    end
    return compiled(concat(parts), name)
end

local base = {
    "assert", "error", "getmetatable", "ipairs", "next", "pairs", "rawequal", "rawget", "select",
    "tonumber", "tostring", "type", "unpack", "xpcall", "gcinfo",
}
local env = copy(getfenv(), base)
env._G = env
env._VERSION = "Lua 5.1"
env.load = load
env.loadstring = load
env.pcall = function(...)
    return unwrapped(pcall(...))
end
env.collectgarbage = function(option)
    return if option == "count" then gcinfo() else 0
end
env.setmetatable = function(t, meta)
    if type(t) == "table" and is_frozen(t) then
        error(READONLY, 0)
    end
    return setmetatable(t, meta)
end
env.rawset = function(t, key, value)
    if type(t) == "table" and is_frozen(t) then
        error(READONLY, 0)
    end
    return rawset(t, key, value)
end

env.string = copy(string, {
    "byte", "char", "format", "gmatch", "gsub", "len", "lower", "match", "rep", "reverse", "sub",
    "upper",
})
env.string.gfind = string.gmatch
env.string.find = find
env.table = copy(table, { "concat", "foreach", "foreachi", "getn", "insert", "maxn", "remove", "sort" })
env.table.setn = function()
    error("'setn' is obsolete", 2)
end
env.math = copy(math, {
    "abs", "acos", "asin", "atan", "atan2", "ceil", "cos", "cosh", "deg", "exp", "floor", "fmod",
    "frexp", "huge", "ldexp", "log", "log10", "max", "min", "modf", "pi", "pow", "rad", "sin", "sinh",
    "sqrt", "tan", "tanh",
})
env.math.mod = math.fmod
env.math.random = wrapped(native.random)
env.math.randomseed = wrapped(native.randomseed)
env.coroutine = copy(coroutine, { "create", "resume", "running", "status", "wrap", "yield" })
env.redis = redis
env.cjson = library(native.cjson, { null = native.null, _NAME = "cjson", _VERSION = "2.1.0" })
env.cjson.new = function()
    return env.cjson
end
env.cmsgpack = library(native.cmsgpack, {
    _NAME = "cmsgpack",
    _VERSION = "lua-cmsgpack 0.4.0",
    _COPYRIGHT = "",
    _DESCRIPTION = "MessagePack C implementation for Lua",
})
env.bit = library(native.bit)
env.struct = library(native.struct)
for _, name in next, { "string", "table", "math", "coroutine", "redis", "cjson", "cmsgpack", "bit", "struct" } do
    freeze(env[name])
end
local strings = getmetatable("")
strings.__index = env.string
freeze(strings)
setmetatable(env, freeze({
    __index = function(_, key)
        error("Script attempted to access nonexistent global variable '" .. tostring(key) .. "'", 2)
    end,
    __newindex = function()
        error(READONLY, 2)
    end,
}))

-- Describes an error as its text and the line of the script, where it is raised.
local function described(e)
    local line
    for level = 2, 30 do
        local source, number = info(level, "sl")
        if source == nil then
            break
        elseif source == "user_script" then
            line = number
            break
        end
    end
    if type(e) == "table" then
        e = rawget(e, "err")
        e = if type(e) == "string" or type(e) == "number" then tostring(e) else "ERR unknown error"
    else
        e = "ERR " .. tostring(e)
        local at = lua_find(e, "attempt to modify a readonly table", 1, true)
        if at then
            e = e:sub(1, at - 1) .. READONLY
        end
    end
    return { text = e, line = line }
end

local function run(f)
    return xpcall(f, described)
end

return freeze(env), run, slot
