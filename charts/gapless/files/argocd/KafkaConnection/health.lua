-- Health of a KafkaConnection for Argo CD. Without the annotation gapless.dev/doctor nothing is checked, and it is healthy.
local health = {status = "Progressing", message = "Waiting for the Gapless operator to reconcile this KafkaConnection"}
if obj.status == nil or obj.status.conditions == nil or obj.status.observedGeneration ~= obj.metadata.generation then
  return health
end
local is = {}
for _, condition in ipairs(obj.status.conditions) do
  is[condition.type] = condition
end
local function has_status(condition, status)
  return condition ~= nil and condition.status == status
end
local function set_health(status, condition)
  health.status = status
  if condition ~= nil then
    health.message = condition.reason
    if condition.message ~= nil and condition.message ~= "" then
      health.message = condition.reason .. ": " .. condition.message
    end
  end
  return health
end

local requested = ((obj.metadata.annotations or {})["gapless.dev/doctor"] or ""):match("^%s*(.-)%s*$"):sub(1, 256)
local checked = obj.status.doctor ~= nil and obj.status.doctor.request or ""
if has_status(is.Stalled, "True") then
  return set_health("Degraded", is.Stalled)
elseif requested ~= "" and requested ~= checked then
  health.message = "Waiting for the check that gapless.dev/doctor requests"
  return health
elseif has_status(is.Reconciling, "True") then
  return set_health("Progressing", is.Reconciling)
elseif has_status(is.Healthy, "False") or (requested ~= "" and not has_status(is.Healthy, "True")) then
  return set_health("Degraded", is.Healthy)
end
return set_health("Healthy", is.Healthy)
