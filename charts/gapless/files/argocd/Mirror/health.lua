-- Health of a Mirror for Argo CD. One that copies is healthy, also while its source is idle.
local health = {status = "Progressing", message = "The Gapless operator has not seen this Mirror yet"}
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

if obj.spec.suspend then
  return answer("Suspended", is.Ready)
elseif said(is.Stalled, "True") then
  return answer("Degraded", is.Stalled)
elseif said(is.Ready, "True") then
  return answer("Healthy", is.Ready)
elseif said(is.Ready, "False") and not said(is.Reconciling, "True") then
  return answer("Degraded", is.Ready)
end
return answer("Progressing", is.Ready)
