
-- Logs of runs. Each function is one operation of the traits `RunLog` and `RunLines`.
--
-- KEYS[1] .. ':run:ID'          epoch, owner, name (of the owner), expires, lines, at (of the last lines), wants
-- KEYS[1] .. ':log:ID'          the sealed lines
-- KEYS[1] .. ':runs'            ids of runs, by the time at which a process took them last
-- KEYS[1] .. ':wanted:PROCESS'  ids of runs that this process serves and others wait for
--
-- `owner` serves the run until `expires`, or until it rests: then that is 0. A process that takes a run from another begins its
-- next `epoch`, and lines of an earlier one are refused. `wants` are {process, until} in the order in which they asked.

-- A process that waits asks several times within this.
local WANTED_FOR = 1 * SECOND
-- Lines that are pushed at once, and ids of runs that are gone which one call forgets.
local PUSHED, FORGOTTEN = 500, 32

local function run_key(store, id)
  return store.base .. ':run:' .. (id or store.request.id)
end

local function log_key(store)
  return store.base .. ':log:' .. store.request.id
end

local function remember_run(store)
  redis.call('PEXPIRE', run_key(store), text(store.request.keep))
  redis.call('PEXPIRE', log_key(store), text(store.request.keep))
end

-- Those that still wait for a run.
local function waiting(store, packed)
  local found = {}
  for _, want in ipairs(packed and cmsgpack.unpack(packed) or {}) do
    if want[2] > store.now then
      found[#found + 1] = want
    end
  end
  return found
end

local function list_run(store)
  local runs = store.base .. ':runs'
  redis.call('ZADD', runs, text(store.now), store.request.id)
  local gone = math.max(store.now - store.request.keep, 0)
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', runs, '-inf', text(gone), 'LIMIT', 0, FORGOTTEN)) do
    redis.call('ZREM', runs, id)
  end
end

-- Waits in the order in which the processes asked.
local function want(store, wants, owner, is_served)
  local request = store.request
  local own
  for _, it in ipairs(wants) do
    own = it[1] == request.owner and it or own
  end
  if not own then
    own = { request.owner }
    wants[#wants + 1] = own
  end
  own[2] = store.now + WANTED_FOR
  redis.call('HSET', run_key(store), 'wants', cmsgpack.pack(wants))
  if is_served and owner ~= request.owner then
    local wanted = store.base .. ':wanted:' .. owner
    redis.call('HSET', wanted, request.id, 1)
    redis.call('PEXPIRE', wanted, DAY)
  end
end

-- Serves a run from here on; or waits while another process does, or waits for it longer.
local function take(store)
  local request, key = store.request, run_key(store)
  local was = redis.call('HMGET', key, 'epoch', 'owner', 'expires', 'lines', 'at', 'wants', 'name')
  local epoch, owner, expires = tonumber(was[1] or 0), was[2], tonumber(was[3] or 0)
  local lines, at = tonumber(was[4] or 0), tonumber(was[5] or store.now)
  local wants = waiting(store, was[6])
  if request.epoch and request.epoch ~= epoch then
    return { 'MOVED' }
  end
  local is_served = expires > store.now
  local is_first = not wants[1] or wants[1][1] == request.owner
  if not is_first or (is_served and owner ~= request.owner) then
    want(store, wants, owner, is_served)
    return { 'WAIT', was[7] or '' }
  end
  if wants[1] then
    table.remove(wants, 1)
  end
  if not request.epoch then
    epoch = epoch + 1
  end
  redis.call('HSET', key, 'epoch', text(epoch), 'owner', request.owner, 'name', request.name,
    'expires', text(store.now + request.ttl), 'wants', cmsgpack.pack(wants))
  -- Those who still wait ask again.
  redis.call('HDEL', store.base .. ':wanted:' .. request.owner, request.id)
  list_run(store)
  remember_run(store)
  return { 'OK', epoch, lines, math.max(store.now - at, 0) }
end

local function append(store, args)
  local request, key, log = store.request, run_key(store), log_key(store)
  local was = redis.call('HMGET', key, 'epoch', 'lines', 'owner')
  local epoch, lines = tonumber(was[1] or 0), tonumber(was[2] or 0)
  local count = #args - 1
  local known = lines - request.after
  -- A server that lost its last moments has fewer, and may have begun the same epoch for another process.
  if epoch ~= request.epoch or was[3] ~= request.owner or known < 0 or known > count then
    return { 'MOVED' }
  end
  -- The last line and what is after it.
  if #redis.call('LRANGE', log, math.max(lines - 1, 0), -1) ~= math.min(lines, 1) then
    return { 'DAMAGED' }
  end
  -- Those of a request whose answer was lost.
  if known > 0 then
    for at, line in ipairs(redis.call('LRANGE', log, request.after, lines - 1)) do
      if line ~= args[1 + at] then
        return { 'DAMAGED' }
      end
    end
  end
  for from = 2 + known, #args, PUSHED do
    redis.call('RPUSH', log, unpack(args, from, math.min(from + PUSHED - 1, #args)))
  end
  redis.call('HSET', key, 'lines', text(request.after + count), 'at', text(store.now))
  remember_run(store)
  return { 'OK' }
end

-- Lines of a run, from a number on.
local function lines(store)
  local request = store.request
  if tonumber(redis.call('HGET', run_key(store), 'epoch') or 0) ~= request.epoch then
    return { 'MOVED' }
  end
  local reply = { 'OK' }
  for _, line in ipairs(redis.call('LRANGE', log_key(store), request.after, request.after + request.count - 1)) do
    reply[#reply + 1] = line
  end
  return reply
end

-- No call of the run is in flight: any process may serve it.
local function rest(store)
  local key = run_key(store)
  if tonumber(redis.call('HGET', key, 'epoch') or 0) ~= store.request.epoch then
    return { 'MOVED' }
  end
  redis.call('HSET', key, 'expires', '0')
  return { 'OK' }
end

-- Serves runs longer. Answers with those that another process has taken.
local function renew(store)
  local reply = { 'OK' }
  for _, run in ipairs(store.request.runs) do
    local key = run_key(store, run[1])
    local was = redis.call('HMGET', key, 'epoch', 'expires')
    if tonumber(was[1] or 0) ~= run[2] then
      reply[#reply + 1] = run[1]
    elseif tonumber(was[2] or 0) > 0 then
      redis.call('HSET', key, 'expires', text(store.now + store.request.ttl))
    end
  end
  return reply
end

-- The runs of a process that others wait for, each once.
local function wanted(store)
  local key = store.base .. ':wanted:' .. store.request.owner
  local all = redis.call('HGETALL', key)
  local reply = { 'OK' }
  for at = 1, #all, 2 do
    redis.call('HDEL', key, all[at])
    reply[#reply + 1] = all[at]
  end
  return reply
end

-- How many lines a run has, and the name of another process that serves it now.
local function written(store)
  local was = redis.call('HMGET', run_key(store), 'lines', 'owner', 'expires', 'name')
  local reply = { 'OK', tonumber(was[1] or 0) }
  if tonumber(was[3] or 0) > store.now and was[2] ~= store.request.owner then
    reply[3] = was[4]
  end
  return reply
end

-- Runs that are not forgotten.
local function runs(store)
  local from = math.max(store.now - store.request.keep, 0)
  local reply = { 'OK' }
  local ids = redis.call('ZRANGEBYSCORE', store.base .. ':runs', text(from), '+inf', 'LIMIT', 0, store.request.count)
  for _, id in ipairs(ids) do
    reply[#reply + 1] = id
  end
  return reply
end

register('take', take)
register('append', append)
register('lines', lines, 'no-writes')
register('rest', rest, 'allow-oom')
register('renew', renew, 'allow-oom')
register('wanted', wanted, 'allow-oom')
register('written', written, 'no-writes')
register('runs', runs, 'no-writes')
