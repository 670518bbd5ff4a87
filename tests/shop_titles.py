"""Titles of shops in several languages, without function words, as products are named."""

BRANDS = ("Kordex", "Velano", "Bristo", "Norpeak", "Halvo", "Quintra")
PRODUCTS = {
    "en": """toner cartridge black original|patch cable snagless grey|power cord right angle
        wall mount flat screen|notebook sleeve black|memory card reader internal|projector lamp
        paper tray 500 sheets|label printer tape white|network switch rack mount|flat panel stand
        cordless drill battery pack|steel shelf bracket heavy duty|LED light bulb soft white
        glass door cabinet hinge|kitchen knife stainless steel|garden hose adjustable nozzle
        running shoes womens|leather boots brown|drawing paper pad large|wooden toy blocks
        adapter cable male female|keyboard wireless compact|video card dual|coffee grinder""",
    "de": """Druckerpatrone schwarz Original|Netzwerkkabel grau geschirmt|Ladegerät Schnellladung
        Wandhalterung Fernseher|Handyhülle schwarz|Kartenleser intern|Beamer Lampe Ersatz
        Papierfach 500 Blatt|Etiketten weiß selbstklebend|Netzwerk Switch|Monitorständer verstellbar
        Akku Bohrschrauber Set|Regalboden Stahl verzinkt|LED Leuchtmittel warmweiß
        Küchenschrank Glastür|Kochmesser Edelstahl|Gartenschlauch Halterung
        Laufschuhe Damen|Lederstiefel Herren braun|Zeichenblock groß|Holzspielzeug Bausteine
        Adapterkabel Stecker Buchse|Tastatur kabellos kompakt|Grafikkarte passiv|Kaffeemühle""",
    "fr": """cartouche toner noire originale|câble réseau blindé gris|chargeur rapide secteur
        support mural écran|housse ordinateur noire|lecteur interne|lampe vidéoprojecteur
        bac papier 500 feuilles|étiquettes blanches adhésives|commutateur réseau|pied réglable
        perceuse sans fil batterie|étagère acier galvanisé|ampoule LED blanc chaud
        charnière porte vitrée|couteau cuisine acier|tuyau arrosage jardin
        chaussures course femme|bottes cuir marron|bloc dessin grand|jouet bois
        adaptateur mâle femelle|clavier compact|carte graphique|moulin café électrique""",
    "es": """cartucho tóner negro original|cable red blindado gris|cargador rápido pared
        soporte pared pantalla|funda portátil negra|lector tarjetas interno|lámpara proyector
        bandeja papel 500 hojas|etiquetas blancas adhesivas|conmutador red|pie ajustable
        taladro batería maletín|estantería acero galvanizado|bombilla LED blanco cálido
        bisagra puerta cristal|cuchillo cocina acero inoxidable|manguera jardín
        zapatillas correr mujer|botas cuero marrón|bloc dibujo grande|juguete madera niños
        adaptador macho hembra|teclado inalámbrico|tarjeta gráfica|molinillo café eléctrico""",
    "it": """cartuccia toner nero originale|cavo rete schermato grigio|caricabatterie rapido
        supporto parete schermo|custodia portatile nera|lettore schede interno|lampada proiettore
        vassoio carta 500 fogli|etichette bianche adesive|coltello cucina acciaio|piede regolabile
        trapano batteria valigetta|scaffale acciaio zincato|lampadina LED bianco caldo
        scarpe corsa donna|stivali pelle marrone|giocattolo legno bambini|macinino elettrico""",
    "nl": """tonercartridge zwart origineel|netwerkkabel grijs|oplader snel stopcontact
        muurbeugel scherm|hoes laptop zwart|kaartlezer intern|lamp beamer vervanging
        papierlade 500 vellen|etiketten wit zelfklevend|koksmes roestvrij staal|voet verstelbaar
        boormachine accu koffer|stellingkast staal verzinkt|ledlamp warm wit|deurscharnier glazen
        hardloopschoenen dames|leren laarzen bruin|houten speelgoed kinderen|koffiemolen""",
    "pl": """toner czarny oryginalny|kabel sieciowy szary|ładowarka szybka sieciowa
        uchwyt ścienny ekran|etui czarne skórzane|czytnik kart wewnętrzny|lampa projektora
        etykiety białe samoprzylepne|nóż kuchenny stal nierdzewna|stojak regulowany
        wiertarka akumulatorowa walizka|regał stalowy ocynkowany|żarówka ciepła biała
        buty damskie sportowe|kozaki skórzane brązowe|zabawka drewniana|młynek elektryczny""",
    "ru": """картридж черный оригинальный|кабель сетевой серый|зарядное устройство быстрое
        кронштейн настенный|чехол кожаный черный|лампа проектора|этикетки белые
        нож кухонный нержавеющая сталь|подставка регулируемая|дрель аккумуляторная
        кроссовки женские беговые|сапоги кожаные коричневые|игрушка деревянная детская""",
    "sv": """bläckpatron svart original|nätverkskabel grå|laddare snabb|väggfäste skärm
        datorväska svart|kortläsare intern|etiketter vita självhäftande|kockkniv rostfritt stål
        skruvdragare batteri väska|stålhylla förzinkad|lampa varmvit|löparskor dam
        läderstövlar bruna|träleksak barn|kaffekvarn elektrisk|tangentbord trådlöst""",
}
UNKNOWN = {  # languages without a stemmer here, beside one that has a stemmer and is much alike
    "uk": """картридж чорний оригінальний|кабель мережевий сірий|зарядний пристрій швидкий
        чохол шкіряний чорний|лампа проектора|етикетки білі|ніж кухонний нержавіюча сталь
        кросівки жіночі бігові|чоботи шкіряні коричневі|іграшка дерев'яна дитяча""",
    "sk": """čierny toner originálny|sieťový kábel sivý|nabíjačka rýchla|držiak na stenu
        puzdro kožené čierne|lampa projektora|etikety biele|nôž kuchynský nerezová oceľ
        dámske topánky bežecké|čižmy kožené hnedé|drevená hračka detská""",
}


def make_titles(code: str, n: int = 300) -> list[str]:
    """Titles in one language: brand, model number, product and size."""
    lines = (PRODUCTS | UNKNOWN)[code].splitlines()
    products = [each.strip() for line in lines for each in line.split("|")]
    return [
        f"{BRANDS[i % 6]} {'XKVT'[i % 4]}{i * 7919 % 9000} {products[i % len(products)]} {i % 9} m"
        for i in range(n)
    ]
