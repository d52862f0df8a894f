fetch("api/runs").then((r) => r.text()).then((t) => { document.getElementById("runs").textContent = t; });
