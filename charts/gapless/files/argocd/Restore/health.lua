-- Health of a Restore for Argo CD. A plan that waits for a person, and a paused Restore, are Suspended: both block a sync wave.
local health = {status = "Progressing", message = "The Gapless operator has not seen this Restore yet"}
if obj.status == nil or obj.status.conditions == nil or obj.status.observedGeneration ~= obj.metadata.generation then
  return health
end
local is = {}
for _, condition in ipairs(obj.status.conditions) do
  is[condition.type] = condition
end
local function said(condition, status)
  return condition ~= nil and condition.status == status
end
local function answer(status, condition)
  health.status = status
  if condition ~= nil then
    health.message = condition.reason
    if condition.message ~= nil and condition.message ~= "" then
      health.message = condition.reason .. ": " .. condition.message
    end
  end
  return health
end

if said(is.Succeeded, "True") or (said(is.Ready, "True") and is.Ready.reason == "Following") then
  return answer("Healthy", is.Ready)
elseif said(is.Stalled, "True") then
  return answer("Degraded", is.Stalled)
elseif said(is.Succeeded, "False") then
  return answer("Degraded", is.Succeeded)
elseif obj.spec.suspend or (is.Ready ~= nil and is.Ready.reason == "Planned") then
  return answer("Suspended", is.Ready)
end
return answer("Progressing", is.Ready)
