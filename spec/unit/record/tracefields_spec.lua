-- perf.tracefields on formats and records made here, in either byte order.
local core = require "perf.core"

local common = [[
name: %s
ID: %d
format:
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;
	field:unsigned char common_flags;	offset:2;	size:1;	signed:0;
	field:unsigned char common_preempt_count;	offset:3;	size:1;	signed:0;
	field:int common_pid;	offset:4;	size:4;	signed:1;

]]

local sched_switch = common:format("sched_switch", 372) .. [[
	field:char prev_comm[16];	offset:8;	size:16;	signed:0;
	field:pid_t prev_pid;	offset:24;	size:4;	signed:1;
	field:int prev_prio;	offset:28;	size:4;	signed:1;
	field:long prev_state;	offset:32;	size:8;	signed:1;
	field:char next_comm[TASK_COMM_LEN];	offset:40;	size:16;	signed:0;
	field:pid_t next_pid;	offset:56;	size:4;	signed:1;
	field:int next_prio;	offset:60;	size:4;	signed:1;

print fmt: "%s:%d [%d] ==> %s:%d", REC->prev_comm, REC->prev_pid, REC->prev_prio, REC->next_comm, REC->next_pid
]]

-- One field of each shape.
local shapes = common:format("shapes", 7) .. [[
	field:u64 big;	offset:8;	size:8;	signed:0;
	field:s64 minus;	offset:16;	size:8;	signed:1;
	field:const void * where;	offset:24;	size:8;	signed:0;
	field:unsigned short words[3];	offset:32;	size:6;	signed:0;
	field:s8 tiny;	offset:38;	size:1;	signed:1;
	field:bool yes;	offset:39;	size:1;	signed:0;
	field:__u8 mac[6];	offset:40;	size:6;	signed:0;
	field:short neg;	offset:46;	size:2;	signed:1;
	field:__data_loc char[] text;	offset:48;	size:4;	signed:0;
	field:__data_loc u64[] list;	offset:52;	size:4;	signed:0;
	field:__rel_loc unsigned int[] rel;	offset:56;	size:4;	signed:0;
	field:__data_loc u8[] bytes;	offset:60;	size:4;	signed:0;
	field:struct pair both;	offset:64;	size:16;	signed:0;
	field:long signed_list[2];	offset:80;	size:16;	signed:1;

print fmt: "%llu %s", REC->big, __get_str(text)
]]

-- The bytes of an integer; little-endian unless big.
local function int(value, size, big)
  local lo, hi = core.halves(value)
  local bytes = {}
  for i = 1, size do
    local word = i <= 4 and lo or hi
    bytes[i] = string.char(math.floor(word / 256 ^ ((i - 1) % 4)) % 256)
  end
  local s = table.concat(bytes)
  return big and s:reverse() or s
end

local function padded(s, n)
  return s .. ("\0"):rep(n - #s)
end

local function loc(offset, length, big)
  return int(length * 65536 + offset, 4, big)
end

local function switch_record(big)
  return int(372, 2, big) .. "\1\2" .. int(-5, 4, big) .. padded("alpha", 16) .. int(100, 4, big) .. int(120, 4, big)
    .. int(-1, 8, big) .. ("sixteen letters!") .. int(200, 4, big) .. int(-10, 4, big)
end

local function shapes_record(big)
  local head = int(7, 2, big) .. "\0\0" .. int(1, 4, big)
    .. int(core.u64(1, 0x80000000), 8, big) .. int(-2, 8, big) .. int(core.u64(0x81000000, 0xffffffff), 8, big)
    .. int(1, 2, big) .. int(65535, 2, big) .. int(3, 2, big) .. "\128\1" .. "\1\2\0\4\5\6" .. int(-300, 2, big)
    .. loc(96, 6, big) .. loc(104, 16, big) .. loc(60, 8, big) .. loc(101, 3, big)
    .. "0123456789abcdef" .. int(-7, 8, big) .. int(7, 8, big)
  assert(#head == 96)
  -- 96: the text; 101: its zero and two more; 104: two u64; 120: two u32
  return head .. "hello\0\0\0" .. int(5, 8, big) .. int(6, 8, big) .. int(8, 4, big) .. int(4294967295, 4, big)
end

describe("perf.tracefields", function()
  local tf
  before_each(function()
    requires{ext = "tracefields"}
    tf = require "perf.record.tracefields"
  end)

  for _, big in ipairs{false, true} do
    describe(big and "big-endian" or "little-endian", function()
      it("decodes sched_switch", function()
        local format = assert(tf.parse(sched_switch, {system = "sched", big_endian = big}))
        assert.same({"sched_switch", "sched", 372}, {format:name()})
        assert.same({
          common_type = 372, common_flags = 1, common_preempt_count = 2, common_pid = -5,
          prev_comm = "alpha", prev_pid = 100, prev_prio = 120, prev_state = -1,
          next_comm = "sixteen letters!", next_pid = 200, next_prio = -10,
        }, format:decode(switch_record(big)))
      end)

      it("decodes every shape of field", function()
        local format = assert(tf.parse(shapes, {big_endian = big}))
        local t = assert(format:decode(shapes_record(big)))
        assert.equal("0x8000000000000001", core.hex(t.big))
        assert.equal(-2, t.minus)
        assert.equal("0xffffffff81000000", core.hex(t.where))
        assert.equal(-2130706432, t.where) -- an address is sign-extended, so exact everywhere
        assert.same({1, 65535, 3}, t.words)
        assert.equal(-128, t.tiny)
        assert.equal(1, t.yes)
        assert.equal("\1\2\0\4\5\6", t.mac)
        assert.equal(-300, t.neg)
        assert.equal("hello", t.text)
        assert.same({5, 6}, t.list)
        assert.same({8, 4294967295}, t.rel)
        assert.equal("\0\0\0", t.bytes)
        assert.equal("0123456789abcdef", t.both)
        assert.same({-7, 7}, t.signed_list)
      end)

      it("prints a record by its print fmt", function()
        local format = assert(tf.parse(sched_switch, {big_endian = big, trusted = true}))
        assert.equal("alpha:100 [120] ==> sixteen letters!:200", format:text(switch_record(big)))
        assert.equal("alpha:100 [120] ==> sixteen letters!:200", tf.text(format, switch_record(big)))
      end)
    end)
  end

  it("lists the fields of a format", function()
    local list = tf.format((assert(tf.parse(shapes))))
    assert.equal("shapes", list.name)
    assert.equal(7, list.id)
    assert.equal(18, #list)
    assert.same({name = "common_pid", type = "int", offset = 4, size = 4, signed = true, common = true}, list[4])
    assert.same({name = "where", type = "const void *", offset = 24, size = 8, signed = false}, list[7])
    assert.same({name = "words", type = "unsigned short[3]", offset = 32, size = 6, signed = false}, list[8])
    assert.same({name = "rel", type = "__rel_loc unsigned int[]", offset = 56, size = 4, signed = false, dynamic = true},
      list[15])
  end)

  it("uses the size of a long on the machine of the format", function()
    local text = common:format("longs", 8) .. "\tfield:__data_loc unsigned long[] all;\toffset:8;\tsize:4;\tsigned:0;\n"
    local raw = int(8, 2) .. "\0\0" .. int(1, 4) .. loc(12, 8) .. int(3, 4) .. int(4, 4)
    assert.same({3, 4}, tf.parse(text, {long_size = 4, big_endian = false}):decode(raw).all)
    assert.same({core.u64(3, 4)}, tf.parse(text, {long_size = 8, big_endian = false}):decode(raw).all)
  end)

  it("does not read beyond a record", function()
    local format = assert(tf.parse(shapes, {big_endian = false, trusted = true}))
    local raw = shapes_record(false)
    for n = 0, #raw - 1 do
      local t, message, code = format:decode(raw:sub(1, n))
      assert.is_nil(t)
      assert.equal("EBADMSG", code)
      assert.matches("^shapes: field '[%w_]+' is not within the " .. n .. " bytes", message)
      assert.equal("EBADMSG", select(3, format:text(raw:sub(1, n))))
    end
    -- A length or offset that points outside.
    for _, bad in ipairs{loc(96, 65535), loc(65535, 1), loc(0, 65535)} do
      assert.equal("EBADMSG", select(3, format:decode(raw:sub(1, 48) .. bad .. raw:sub(53))))
    end
    -- An empty array may point anywhere.
    assert.equal("", format:decode(raw:sub(1, 48) .. loc(65535, 0) .. raw:sub(53)).text)
  end)

  it("prints nothing if a length in the record points beyond it", function()
    local text = common:format("dump", 9) .. [[
	field:int len;	offset:8;	size:4;	signed:1;
	field:u8 data[4];	offset:12;	size:4;	signed:0;

print fmt: "%s", __print_hex(REC->data, REC->len)
]]
    local format = assert(tf.parse(text, {big_endian = false, trusted = true}))
    local head = int(9, 2) .. "\0\0" .. int(1, 4)
    assert.equal("01 02 03 04", format:text(head .. int(4, 4) .. "\1\2\3\4"))
    local t, message, code = format:text(head .. int(100000, 4) .. "\1\2\3\4")
    assert.is_nil(t)
    assert.equal("EBADMSG", code)
    assert.matches("a length in it goes beyond its 16 bytes", message)
  end)

  it("does not evaluate the print fmt of foreign formats", function()
    local format = assert(tf.parse(sched_switch, {big_endian = false}))
    local t, message, code = format:text(switch_record(false))
    assert.is_nil(t)
    assert.equal("EPERM", code)
    assert.matches("trusted = true", message)
  end)

  it("refuses an invalid format, and gives the line", function()
    local function refused(text, line)
      local format, message, code = tf.parse(text)
      assert.is_nil(format)
      assert.equal("EBADMSG", code)
      assert.matches("not a tracepoint's format %(line " .. line .. "%)", message)
    end
    local head = common:format("x", 1)
    refused("", 1)
    refused("garbage\n", 1)
    refused("name: x\nID: 1\nformat:\n", 4)
    refused(head .. "\tfield:int;\toffset:0;\tsize:4;\tsigned:1;\n", 9)
    refused(head .. "\tfield:int x;\toffset:0;\tsize:4\n", 9)
    refused(head .. "\tfield:int x;\toffset:-1;\tsize:4;\tsigned:1;\n", 9)
    refused(head .. "\tfield:int x;\toffset:99999999999999999999;\tsize:4;\tsigned:1;\n", 9)
    refused(head .. "\tfield:int x];\toffset:0;\tsize:4;\tsigned:1;\n", 9)
    refused(head .. "\tfield:int x[2][;\toffset:0;\tsize:4;\tsigned:1;\n", 9)
    refused(head .. "\tfield:int x\1;\toffset:0;\tsize:4;\tsigned:1;\n", 9)
    refused(head .. "\tfield:__data_loc char[] x;\toffset:0;\tsize:8;\tsigned:1;\n", 9)
    assert.equal("EBADMSG", select(3, tf.parse(("x"):rep(1048577))))
  end)

  it("raises an error for an invalid tracepoint, record or option", function()
    assert.error_matches(function() tf.decode("nocolon", "") end, "#1 .*'group:name' expected, got 'nocolon'")
    assert.error_matches(function() tf.decode("../../etc:passwd", "") end, "tracepoint 'group:name' expected")
    assert.error_matches(function() tf.decode("..:format", "") end, "tracepoint 'group:name' expected")
    assert.error_matches(function() tf.decode({}, "") end, "name, id or Format expected, got table")
    assert.error_matches(function() tf.decode("a:b", nil) end, "#2 .*string of raw bytes expected, got nil")
    assert.error_matches(function() tf.text("a:b", {}) end, "#2 .*string of raw bytes expected, got table")
    assert.error_matches(function() tf.parse(5) end, "string expected, got number")
    assert.error_matches(function() tf.parse("", {bigendian = true}) end, "unknown option 'bigendian'")
    assert.error_matches(function() tf.parse("", {long_size = 5}) end, "4 or 8 expected")
  end)

  it("closes a format, after which its methods raise an error", function()
    local format = assert(tf.parse(sched_switch, {trusted = true}))
    format:text(switch_record(tf.big_endian))
    format:close()
    format:close()
    assert.error_matches(function() format:decode("") end, "Format is closed")
    assert.error_matches(function() format:fields() end, "Format is closed")
    assert.error_matches(function() format.decode({}, "") end, "Format expected, got table")
  end)
end)
