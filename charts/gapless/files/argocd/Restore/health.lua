-- Health of a Restore for Argo CD. A plan that waits for a person, and a paused Restore, are Suspended: both block a sync wave.
local health = {status = "Progressing", message = "Waiting for the Gapless operator to reconcile this Restore"}
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

if has_status(is.Succeeded, "True") or (has_status(is.Ready, "True") and is.Ready.reason == "Following") then
  return set_health("Healthy", is.Ready)
elseif has_status(is.Stalled, "True") then
  return set_health("Degraded", is.Stalled)
elseif has_status(is.Succeeded, "False") then
  return set_health("Degraded", is.Succeeded)
elseif obj.spec.suspend or (is.Ready ~= nil and is.Ready.reason == "Planned") then
  return set_health("Suspended", is.Ready)
end
return set_health("Progressing", is.Ready)
