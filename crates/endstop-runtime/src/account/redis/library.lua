#!lua name=LIBRARY
-- Budgets of Endstop. Each function is one operation of the trait `BudgetStore`, and happens completely or not at all.
--
-- KEYS[1] is the beginning of all keys, `{endstop:NAMESPACE}`. ARGV[1] is a request as JSON. A reply begins with a word.
-- Amounts are {steps, tokens, nano-dollars}: integers below 2^53, which a Lua number keeps exactly. Times are milliseconds
-- since 1970, by the clock of the server; they never run backwards.
--
-- KEYS[1] .. ':meta'                    format, latest (the latest time), epoch (of the last kill), keys (keys.lua)
-- KEYS[1] .. ':counter:ACCOUNT:WINDOW'  END-START -> {settled x 3, held x 3, unconfirmed x 3}
-- KEYS[1] .. ':hold:ID'                 {state, expires, owner, amounts, {{account, window, END-START}, ..}}
-- KEYS[1] .. ':held'                    ids of the holds that are held, by expiry
-- KEYS[1] .. ':adjustment:ID'           a correction as JSON
-- KEYS[1] .. ':adjustments:ACCOUNT'      the latest corrections of an account as JSON, the newest last
-- KEYS[1] .. ':kills'                   the latest kills as JSON, each with its epoch and the one before it (`after`)
-- KEYS[1] .. ':gateways'                ids of processes -> {epoch that they obey, time}

local FORMAT = 1
local FULL = 4503599627370496 -- 2^52: beyond every limit
local NEVER = 9007199254740991
local SECOND, DAY = 1000, 86400000
-- A repeated settlement comes within seconds; a late one of a hold that expired may come from a spool days later.
local REMEMBER_SETTLED, REMEMBER_EXPIRED = 600 * SECOND, 7 * DAY
local REMEMBER_ADJUSTED = 400 * DAY
-- Expired holds that one reservation settles. Those that are left still count, because they are held.
local SWEEP = 32
local MOST_KILLS = 1000
local MOST_ADJUSTMENTS = 100
-- A process that has not told of itself for so long is gone.
local GATEWAY_GONE = 20 * SECOND
local HELD, EXPIRED, SETTLED = 0, 1, 2

-- When this library was first called since the server started. It is in no key, because a restart must not restore it.
local first_called

local function text(number)
  return string.format('%.0f', number)
end

local function bounded(number)
  return math.max(0, math.min(FULL, number))
end

local function negated(amounts)
  return { -amounts[1], -amounts[2], -amounts[3] }
end

-- The request with the time of the store; or a reply, if a later format is in the way.
local function open(keys, args, writes)
  local base = keys[1]
  local request = cjson.decode(args[1])
  local meta = redis.call('HMGET', base .. ':meta', 'format', 'latest', 'epoch')
  local format = tonumber(meta[1] or FORMAT)
  if format ~= FORMAT then
    return nil, { 'NEWER', format }
  end
  local wall = request.at
  if not wall then
    local time = redis.call('TIME')
    wall = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
    first_called = math.min(first_called or wall, wall)
  end
  wall = math.min(wall, NEVER / 2)
  local latest = tonumber(meta[2] or 0)
  if writes and wall > latest then
    redis.call('HSET', base .. ':meta', 'format', FORMAT, 'latest', text(wall))
  end
  local epoch = tonumber(meta[3] or 0)
  return { base = base, request = request, wall = wall, now = math.max(wall, latest), epoch = epoch }
end

-- Makes an act on the store that a request names a function of the library. It does nothing in a store of a later format.
local function register(name, act, flag)
  local function called(keys, args)
    local store, reply = open(keys, args, flag ~= 'no-writes')
    return reply or act(store, args)
  end
  redis.register_function { function_name = 'LIBRARY_' .. name, callback = called, flags = { flag } }
end

local function counter_key(store, account, kind)
  return store.base .. ':counter:' .. account .. ':' .. kind
end

-- The counters of a window that end after some time, oldest first. What no window sums any more is deleted, if nothing is
-- held in it; it stays as long again for holds of that time that grow.
local function counters(store, account, kind, after, forget)
  local key = counter_key(store, account, kind)
  local all = redis.call('HGETALL', key)
  local oldest = after - (store.now - after)
  local found, old = {}, {}
  for at = 1, #all, 2 do
    local ended, begun = string.match(all[at], '^(%d+)%-(%d+)$')
    ended, begun = tonumber(ended), tonumber(begun)
    if ended > after then
      local counts = cmsgpack.unpack(all[at + 1])
      found[#found + 1] = { ended = ended, begun = begun, counts = counts, place = { account, kind, all[at] } }
    elseif forget and ended <= oldest then
      local counts = cmsgpack.unpack(all[at + 1])
      if counts[4] == 0 and counts[5] == 0 and counts[6] == 0 then
        old[#old + 1] = all[at]
      end
    end
  end
  for _, field in ipairs(old) do
    redis.call('HDEL', key, field)
  end
  table.sort(found, function(a, b)
    if a.ended ~= b.ended then
      return a.ended < b.ended
    end
    return a.begun < b.begun
  end)
  return found
end

-- Settled, held and unconfirmed of one dimension.
local function sum(list, dimension)
  local settled, held, unconfirmed = 0, 0, 0
  for _, counter in ipairs(list) do
    settled = settled + counter.counts[dimension]
    held = held + counter.counts[3 + dimension]
    unconfirmed = unconfirmed + counter.counts[6 + dimension]
  end
  return bounded(settled), bounded(held), bounded(unconfirmed)
end

-- Adds to a counter, which begins at nothing. Counters of windows that nobody uses again expire.
local function add(store, place, settled, held, unconfirmed)
  local key = counter_key(store, place[1], place[2])
  local counts = redis.call('HGET', key, place[3])
  counts = counts and cmsgpack.unpack(counts) or { 0, 0, 0, 0, 0, 0, 0, 0, 0 }
  for dimension = 1, 3 do
    counts[dimension] = bounded(counts[dimension] + (settled and settled[dimension] or 0))
    counts[3 + dimension] = bounded(counts[3 + dimension] + (held and held[dimension] or 0))
    counts[6 + dimension] = bounded(counts[6 + dimension] + (unconfirmed and unconfirmed[dimension] or 0))
  end
  local is_new = redis.call('HSET', key, place[3], cmsgpack.pack(counts)) == 1
  if is_new and place[2] ~= 'ever' then
    local ended, begun = string.match(place[3], '^(%d+)%-(%d+)$')
    ended, begun = tonumber(ended), tonumber(begun)
    local windows = string.sub(place[2], 1, 7) == 'rolling' and 130 or 2
    local wanted = math.max(ended - store.wall, 0) + windows * (ended - begun) + 2 * DAY
    if redis.call('PTTL', key) < wanted then
      redis.call('PEXPIRE', key, text(wanted))
    end
  end
end

local function hold_key(store, id)
  return store.base .. ':hold:' .. id
end

local function hold_of(store, id)
  local hold = redis.call('GET', hold_key(store, id))
  return hold and cmsgpack.unpack(hold)
end

local function put_held(store, id, hold)
  redis.call('SET', hold_key(store, id), cmsgpack.pack(hold))
  redis.call('ZADD', store.base .. ':held', text(hold[2]), id)
end

-- Settles a hold that expired at its worst case.
local function expire(store, id, hold)
  for _, place in ipairs(hold[5]) do
    add(store, place, hold[4], negated(hold[4]), hold[4])
  end
  hold[1] = EXPIRED
  redis.call('SET', hold_key(store, id), cmsgpack.pack(hold), 'PX', REMEMBER_EXPIRED)
  redis.call('ZREM', store.base .. ':held', id)
end

local function sweep(store)
  local held = store.base .. ':held'
  local ids = redis.call('ZRANGEBYSCORE', held, '-inf', text(store.now), 'LIMIT', 0, SWEEP)
  for _, id in ipairs(ids) do
    local hold = hold_of(store, id)
    if hold and hold[1] == HELD then
      expire(store, id, hold)
    else
      redis.call('ZREM', held, id)
    end
  end
end

-- The counter that a charge goes into now, and after which end counters are summed. Nothing, if the caller computed the
-- calendar for another time.
local function window(store, limit)
  if limit.length then
    local begun = store.now - store.now % limit.bucket
    return begun + limit.bucket, begun, math.max(store.now - limit.length, 0)
  end
  if store.now < limit.begun or store.now >= limit.ended then
    return nil
  end
  return limit.ended, limit.begun, limit.begun
end

-- Sets the window of each limit; whether the caller computed the calendar for this time.
local function set_windows(store)
  for _, limit in ipairs(store.request.limits) do
    limit.ended, limit.begun, limit.after = window(store, limit)
    if not limit.ended then
      return false
    end
  end
  return true
end

local function places(store)
  local found, known = {}, {}
  for _, limit in ipairs(store.request.limits) do
    local name = limit.account .. ':' .. limit.kind
    if not known[name] then
      known[name] = true
      found[#found + 1] = { limit.account, limit.kind, text(limit.ended) .. '-' .. text(limit.begun) }
    end
  end
  return found
end

-- When a counter is no longer summed; -1 for never.
local function gone_at(limit, ended)
  if limit.kind == 'ever' then
    return -1
  end
  return ended + (limit.length or 0)
end

local function fits_at(limit, list, committed, asked)
  if asked > limit.most then
    return -1
  end
  local left = committed + asked
  for _, counter in ipairs(list) do
    left = left - counter.counts[limit.dimension] - counter.counts[3 + limit.dimension]
    if left <= limit.most then
      return gone_at(limit, counter.ended)
    end
  end
  return -1
end

-- The refusal of the outermost account that has too little left; nothing if it fits.
local function refusal(store, amounts, after_of)
  local lists, refused, depth = {}, nil, nil
  for at, limit in ipairs(store.request.limits) do
    local asked = amounts[limit.dimension]
    -- Nothing always fits, even into what is overspent.
    local after = asked > 0 and after_of(limit)
    if after then
      local name = limit.account .. ':' .. limit.kind
      lists[name] = lists[name] or counters(store, limit.account, limit.kind, after, true)
      local settled, held = sum(lists[name], limit.dimension)
      if settled + held + asked > limit.most and (not depth or limit.depth < depth) then
        depth = limit.depth
        local fits = fits_at(limit, lists[name], settled + held, asked)
        refused = { 'REFUSED', at - 1, settled, held, asked, store.now, fits }
      end
    end
  end
  return refused
end

local function reserve(store)
  local request = store.request
  if request.epoch ~= store.epoch then
    return { 'KILLED', store.epoch }
  end
  sweep(store)
  local hold = hold_of(store, request.id)
  if hold then
    if hold[1] == HELD and hold[2] > store.now then
      return { 'OK' }
    end
    if hold[1] == HELD then
      expire(store, request.id, hold)
    end
    return { 'ENDED' }
  end
  if not set_windows(store) then
    return { 'SPAN', store.now }
  end
  local refused = refusal(store, request.amounts, function(limit) return limit.after end)
  if refused then
    return refused
  end
  local expires = math.min(store.now + request.ttl, NEVER)
  hold = { HELD, expires, request.owner, request.amounts, places(store) }
  for _, place in ipairs(hold[5]) do
    add(store, place, nil, hold[4], nil)
  end
  put_held(store, request.id, hold)
  return { 'OK' }
end

local function grow(store)
  local request = store.request
  sweep(store)
  local hold = hold_of(store, request.id)
  if not hold then
    return { 'UNKNOWN' }
  end
  if hold[1] == HELD and hold[2] <= store.now then
    expire(store, request.id, hold)
  end
  if hold[1] ~= HELD then
    return { 'ENDED' }
  end
  local by = request.amounts
  if by[1] > 0 or by[2] > 0 or by[3] > 0 then
    -- All windows that contain the bucket, and so the ones between.
    local refused = refusal(store, by, function(limit)
      for _, place in ipairs(hold[5]) do
        if place[1] == limit.account and place[2] == limit.kind then
          if limit.kind == 'ever' then
            return 0
          end
          local begun = tonumber(string.match(place[3], '%-(%d+)$'))
          return math.max(begun - (limit.length or 0), 0)
        end
      end
      return nil
    end)
    if refused then
      return refused
    end
    for _, place in ipairs(hold[5]) do
      add(store, place, nil, by, nil)
    end
    for dimension = 1, 3 do
      hold[4][dimension] = bounded(hold[4][dimension] + by[dimension])
    end
  end
  hold[2] = math.min(store.now + request.ttl, NEVER)
  put_held(store, request.id, hold)
  return { 'OK' }
end

local function settle(store)
  local id, actual = store.request.id, store.request.amounts
  local hold = hold_of(store, id)
  if not hold then
    return { 'UNKNOWN' }
  end
  if hold[1] == SETTLED then
    return { 'OK' }
  end
  local was = negated(hold[4])
  for _, place in ipairs(hold[5]) do
    if hold[1] == HELD then
      add(store, place, actual, was, nil)
    else
      local change = { actual[1] + was[1], actual[2] + was[2], actual[3] + was[3] }
      add(store, place, change, nil, was)
    end
  end
  redis.call('SET', hold_key(store, id), cmsgpack.pack({ SETTLED }), 'PX', REMEMBER_SETTLED)
  redis.call('ZREM', store.base .. ':held', id)
  return { 'OK' }
end

-- The amounts of holds that have expired, by window and counter. A reader writes nothing, so they are still stored as held.
local function expired(store)
  local found = {}
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', store.base .. ':held', '-inf', text(store.now), 'LIMIT', 0, SWEEP)) do
    local hold = hold_of(store, id)
    for _, place in ipairs(hold and hold[1] == HELD and hold[5] or {}) do
      local name = place[1] .. ':' .. place[2]
      found[name] = found[name] or {}
      table.insert(found[name], { place[3], hold[4] })
    end
  end
  return found
end

-- Counts them as the next reservation will: as spent, at their worst case.
local function spend(list, holds)
  for _, counter in ipairs(list) do
    for _, hold in ipairs(holds or {}) do
      if hold[1] == counter.place[3] then
        for dimension = 1, 3 do
          local amount = hold[2][dimension]
          counter.counts[dimension] = counter.counts[dimension] + amount
          counter.counts[3 + dimension] = counter.counts[3 + dimension] - amount
          counter.counts[6 + dimension] = counter.counts[6 + dimension] + amount
        end
      end
    end
  end
  return list
end

local function read(store)
  if not set_windows(store) then
    return { 'SPAN', store.now }
  end
  local reply = { 'OK', store.now, store.wall }
  local lists, holds = {}, expired(store)
  for _, limit in ipairs(store.request.limits) do
    local name = limit.account .. ':' .. limit.kind
    if not lists[name] then
      lists[name] = spend(counters(store, limit.account, limit.kind, limit.after, false), holds[name])
    end
    local settled, held, unconfirmed = sum(lists[name], limit.dimension)
    local oldest = lists[name][1] and lists[name][1].ended or limit.ended
    for _, number in ipairs({ settled, held, unconfirmed, gone_at(limit, oldest) }) do
      reply[#reply + 1] = number
    end
  end
  return reply
end

-- Takes amounts, which are below nothing, out of the counters of a window, the newest first: a rolling one has many.
local function give_back(store, limit, left)
  local list = counters(store, limit.account, limit.kind, limit.after, false)
  for at = #list, 1, -1 do
    local settled, is_any = { 0, 0, 0 }, false
    for dimension = 1, 3 do
      settled[dimension] = math.max(left[dimension], -list[at].counts[dimension])
      left[dimension] = left[dimension] - settled[dimension]
      is_any = is_any or settled[dimension] ~= 0
    end
    if is_any then
      add(store, list[at].place, settled, nil, nil)
    end
  end
end

-- The refusal to take back more than an account has spent in any of its windows: the rest would be taken from the spend of others
-- in the accounts above it. Nothing, if it can be taken back. A unit that the account does not limit is not known.
local function not_spent(store)
  local request, most = store.request, {}
  for _, limit in ipairs(request.limits) do
    local dimension = limit.dimension
    if limit.account == request.name and request.change[dimension] < 0 then
      local settled = sum(counters(store, limit.account, limit.kind, limit.after, false), dimension)
      most[dimension] = math.max(most[dimension] or 0, settled)
    end
  end
  for dimension = 1, 3 do
    if most[dimension] and -request.change[dimension] > most[dimension] then
      return { 'UNSPENT', dimension, -request.change[dimension], most[dimension] }
    end
  end
  return nil
end

local function adjust(store)
  local request = store.request
  if not set_windows(store) then
    return { 'SPAN', store.now }
  end
  local key = store.base .. ':adjustment:' .. request.id
  -- Its amounts are already in the counters, so a repetition could seem to take back too much.
  if redis.call('GET', key) then
    return { 'OK' }
  end
  sweep(store)
  local refused = not_spent(store)
  if refused then
    return refused
  end
  redis.call('SET', key, request.record, 'PX', REMEMBER_ADJUSTED)
  local list = store.base .. ':adjustments:' .. request.name
  redis.call('RPUSH', list, request.record)
  redis.call('LTRIM', list, -MOST_ADJUSTMENTS, -1)
  redis.call('PEXPIRE', list, text(REMEMBER_ADJUSTED))
  local known = {}
  for _, limit in ipairs(request.limits) do
    local name = limit.account .. ':' .. limit.kind
    if not known[name] then
      known[name] = true
      local more, less = { 0, 0, 0 }, { 0, 0, 0 }
      for dimension = 1, 3 do
        more[dimension] = math.max(request.change[dimension], 0)
        less[dimension] = math.min(request.change[dimension], 0)
      end
      add(store, { limit.account, limit.kind, text(limit.ended) .. '-' .. text(limit.begun) }, more, nil, nil)
      give_back(store, limit, less)
    end
  end
  return { 'OK' }
end

-- The latest corrections of an account, the newest last.
local function adjustments(store)
  local reply = { 'OK' }
  local list = store.base .. ':adjustments:' .. store.request.name
  for _, record in ipairs(redis.call('LRANGE', list, -store.request.count, -1)) do
    reply[#reply + 1] = record
  end
  return reply
end

-- The time, the epoch, and 1 if the store has of a process that it obeys an epoch. It has not after a restart that lost that.
local function hello(store)
  local request = store.request
  local told = request.id and redis.call('HGET', store.base .. ':gateways', request.id)
  local is_told = told and cmsgpack.unpack(told)[1] == request.epoch
  return { 'OK', store.now, store.epoch, is_told and 1 or 0 }
end

-- The epoch before that of a kill; nothing if the kill has another epoch than this one. An earlier version recorded none, and
-- counted epochs one by one.
local function epoch_before(record, epoch)
  local is_read, kill = pcall(cjson.decode, record)
  kill = is_read and type(kill) == 'table' and kill or {}
  if kill.epoch and tonumber(kill.epoch) ~= epoch then
    return nil
  end
  return tonumber(kill.after) or epoch - 1
end

-- The epoch, 1 if these are all kills after an epoch, and the kills as JSON, the newest last; or all that are recorded. Some are
-- missing if they were too many, and if the store has lost the kill of the epoch that the caller obeys.
local function kills(store)
  local after = store.request.after
  local all = redis.call('LRANGE', store.base .. ':kills', 0, -1)
  local reply, first, epoch = { 'OK', store.epoch, 1 }, 1, store.epoch
  if after then
    first = #all + 1
    while epoch > after do
      local before = all[first - 1] and epoch_before(all[first - 1], epoch)
      if not before then
        break
      end
      first, epoch = first - 1, before
    end
    reply[3] = epoch == after and 1 or 0
  end
  for at = first, #all do
    reply[#reply + 1] = all[at]
  end
  return reply
end

-- Tells that a process obeys all kills up to an epoch.
local function obey(store)
  local request, gateways = store.request, store.base .. ':gateways'
  if request.ends then
    redis.call('HDEL', gateways, request.id)
  else
    redis.call('HSET', gateways, request.id, cmsgpack.pack({ request.epoch, store.now }))
    redis.call('PEXPIRE', gateways, DAY)
  end
  return { 'OK', store.epoch }
end

-- Begins the next epoch: from here on no call is admitted that has not obeyed this kill. An epoch is a time, so that a server
-- that has lost its last moments does not give another kill an epoch that processes already obey. Answers with the time since
-- the server started, as far as is known here: it may have lost which processes there are.
local function kill(store)
  local list, meta = store.base .. ':kills', store.base .. ':meta'
  local epoch = math.max(store.epoch + 1, store.now)
  local order = '{"epoch":' .. text(epoch) .. ',"after":' .. text(store.epoch) .. ','
  redis.call('RPUSH', list, order .. string.sub(store.request.record, 2))
  redis.call('LTRIM', list, -MOST_KILLS, -1)
  redis.call('HSET', meta, 'epoch', text(epoch))
  return { 'OK', epoch, math.max(store.wall - (first_called or store.wall), 0) }
end

-- How many processes obey an epoch, how many others told of themselves lately, and the epoch of the store.
local function obeyed(store)
  local gateways = store.base .. ':gateways'
  local all, yes, no = redis.call('HGETALL', gateways), 0, 0
  for at = 1, #all, 2 do
    local told = cmsgpack.unpack(all[at + 1])
    if store.now - told[2] > GATEWAY_GONE then
      redis.call('HDEL', gateways, all[at])
    elseif told[1] >= store.request.epoch then
      yes = yes + 1
    else
      no = no + 1
    end
  end
  return { 'OK', yes, no, store.epoch }
end

register('reserve', reserve)
register('grow', grow)
-- A settlement is not refused for want of memory: it needs hardly any.
register('settle', settle, 'allow-oom')
register('read', read, 'no-writes')
register('adjust', adjust)
register('adjustments', adjustments, 'no-writes')
register('hello', hello, 'no-writes')
register('kills', kills, 'no-writes')
register('obey', obey, 'allow-oom')
register('kill', kill, 'allow-oom')
register('obeyed', obeyed, 'allow-oom')
